// The services with nothing but Node: `node service.mjs --listen ADDRESS [--cluster COUNT]`. With `--cluster` so many processes
// share the address, and each has state of its own.

import cluster from "node:cluster";
import http from "node:http";
import { digits, isKernel, run } from "../../../../examples/services/scimark/kernels.mjs";

const NUMBER_MAX = 45;
const ENTRIES_MAX = 1_000_000;

const options = new Map();
for (let at = 2; at < process.argv.length; at += 2) options.set(process.argv[at], process.argv[at + 1]);
const [host, port] = (options.get("--listen") ?? "127.0.0.1:0").split(":");
const processes = Number(options.get("--cluster") ?? 1);

const numbers = new Map();
const results = new Map();
let stored = 0;

function store(map, key, value) {
  if (map.size >= ENTRIES_MAX) map.clear();
  map.set(key, value);
  stored += 1;
}

function fibonacci(n) {
  return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

function fibonacciInRounds(n, rounds) {
  let number = 0;
  for (let round = 0; round < Math.max(rounds, 1); round += 1) number = fibonacci(n);
  return number;
}

function cachedFibonacci(n, rounds, seed) {
  const key = `${n} ${seed}`;
  const known = numbers.get(key);
  if (known !== undefined) return known;
  const number = fibonacciInRounds(n, rounds);
  store(numbers, key, number);
  return number;
}

// Within one process a handler is alone, so what others need a lock for is an ordinary call here.
function kernel(method, group, name, seed) {
  if (!isKernel(name)) return undefined;
  if (method === "GET" && group === "sf1") results.get(`${name} ${seed}`);
  const result = run(name, seed);
  if (method === "POST") store(results, `${name} ${seed}`, result);
  return digits(result);
}

function answer(method, path, query) {
  const number = (name) => Number(query.get(name) ?? 0);
  const [, first, second, third] = path.split("/");
  switch (`${method} ${first}`) {
    case "GET plain":
      return "Hello, World!";
    case "GET fib":
      return String(fibonacciInRounds(Math.min(Number(second), NUMBER_MAX), number("rounds")));
    case "GET cached":
      return String(cachedFibonacci(Math.min(Number(third), NUMBER_MAX), number("rounds"), number("seed")));
    case "GET scimark":
    case "GET sf1":
    case "POST sf1":
    case "GET sf2":
    case "POST sf2":
    case "POST then":
      return kernel(method, first, second, number("seed"));
    case "GET stored":
      return String(stored);
    default:
      return undefined;
  }
}

const NO_QUERY = new URLSearchParams();

function serve() {
  const server = http.createServer((request, response) => {
    const mark = request.url.indexOf("?");
    const path = mark < 0 ? request.url : request.url.slice(0, mark);
    const query = mark < 0 ? NO_QUERY : new URLSearchParams(request.url.slice(mark + 1));
    const text = answer(request.method, path, query);
    response.writeHead(text === undefined ? 404 : 200, {
      "content-type": "text/plain; charset=utf-8",
      "content-length": text === undefined ? 0 : text.length,
    });
    response.end(text);
  });
  // A measurement may leave a connection idle for longer than the usual five seconds.
  server.keepAliveTimeout = 120_000;
  server.listen(Number(port), host);
}

/** Prints how many rounds of a Fibonacci number take so many milliseconds: the shortest of five tries. */
function calibrate(n, milliseconds) {
  fibonacciInRounds(n, 20);
  let shortest = Infinity;
  for (let attempt = 0; attempt < 5; attempt += 1) {
    const before = process.cpuUsage();
    fibonacciInRounds(n, 10);
    const { user, system } = process.cpuUsage(before);
    shortest = Math.min(shortest, (user + system) / 10_000);
  }
  console.log(Math.max(1, Math.round(milliseconds / shortest)));
}

if (options.has("--calibrate")) {
  const [n, milliseconds] = options.get("--calibrate").split(":").map(Number);
  calibrate(n, milliseconds);
} else if (processes > 1 && cluster.isPrimary) {
  for (let count = 0; count < processes; count += 1) cluster.fork();
} else {
  serve();
}
