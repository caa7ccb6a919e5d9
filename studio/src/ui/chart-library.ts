// Fetched only once a chart is drawn.
import "uplot/dist/uPlot.min.css";
import "../styles/chart.css";
export { default } from "uplot";
