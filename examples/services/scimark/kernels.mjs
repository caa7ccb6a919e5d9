// The five kernels of SciMark 2.0 as in kernels.rs beside this file: the same sizes, the same order of operations, the same bits.

const FFT_POINTS = 1024;
const FFT_CYCLES = 64;
const SOR_SIDE = 100;
const SOR_SWEEPS = 26;
const SOR_OMEGA = 1.25;
const MONTE_CARLO_SAMPLES = 400_000;
const SPARSE_ROWS = 1000;
const SPARSE_ENTRIES = 5000;
const SPARSE_CYCLES = 500;
const LU_SIDE = 100;
const LU_CYCLES = 16;

const RANDOM_MODULUS = 2147483647;
const RANDOM_HALF = 65536;
const RANDOM_FACTOR = 9069;
const RANDOM_SCALE = 1 / RANDOM_MODULUS;

class Random {
  constructor(seed) {
    let own = Math.min(seed, RANDOM_MODULUS);
    if (own % 2 === 0) own -= 1;
    const factorLow = RANDOM_FACTOR % RANDOM_HALF;
    const factorHigh = Math.trunc(RANDOM_FACTOR / RANDOM_HALF);
    let low = own % RANDOM_HALF;
    let high = Math.trunc(own / RANDOM_HALF);
    this.numbersBefore = new Int32Array(17);
    for (let at = 0; at < 17; at += 1) {
      const product = low * factorLow;
      high = (Math.trunc(product / RANDOM_HALF) + low * factorHigh + high * factorLow) % (RANDOM_HALF / 2);
      low = product % RANDOM_HALF;
      this.numbersBefore[at] = low + RANDOM_HALF * high;
    }
    this.i = 4;
    this.j = 16;
  }

  next() {
    let difference = this.numbersBefore[this.i] - this.numbersBefore[this.j];
    if (difference < 0) difference += RANDOM_MODULUS;
    this.numbersBefore[this.j] = difference;
    this.i = this.i === 0 ? 16 : this.i - 1;
    this.j = this.j === 0 ? 16 : this.j - 1;
    return difference * RANDOM_SCALE;
  }

  numbers(count) {
    const numbers = new Float64Array(count);
    for (let at = 0; at < count; at += 1) numbers[at] = this.next();
    return numbers;
  }
}

function sum(values) {
  let total = 0;
  for (let at = 0; at < values.length; at += 1) total += values[at];
  return total;
}

function reverseBits(data) {
  const points = data.length / 2;
  let j = 0;
  for (let i = 0; i < points - 1; i += 1) {
    if (i < j) {
      const real = data[2 * i];
      const imaginary = data[2 * i + 1];
      data[2 * i] = data[2 * j];
      data[2 * i + 1] = data[2 * j + 1];
      data[2 * j] = real;
      data[2 * j + 1] = imaginary;
    }
    let k = points >> 1;
    while (k <= j) {
      j -= k;
      k >>= 1;
    }
    j += k;
  }
}

function butterflies(data, dual, sine, versed) {
  const points = data.length / 2;
  let real = 1;
  let imaginary = 0;
  for (let a = 0; a < dual; a += 1) {
    if (a > 0) {
      const turned = real - sine * imaginary - versed * real;
      imaginary = imaginary + sine * real - versed * imaginary;
      real = turned;
    }
    for (let b = 0; b < points; b += 2 * dual) {
      const i = 2 * (b + a);
      const j = 2 * (b + a + dual);
      const first = data[j];
      const second = data[j + 1];
      const productReal = real * first - imaginary * second;
      const productImaginary = real * second + imaginary * first;
      data[j] = data[i] - productReal;
      data[j + 1] = data[i + 1] - productImaginary;
      data[i] += productReal;
      data[i + 1] += productImaginary;
    }
  }
}

function transformIn(data, direction) {
  const points = data.length / 2;
  reverseBits(data);
  let sine = 0;
  let cosine = -1;
  for (let dual = 1; dual < points; dual *= 2) {
    const halfCosine = Math.sqrt((1 + cosine) * 0.5);
    const halfSine = halfCosine === 0 ? 1 : sine / (2 * halfCosine);
    butterflies(data, dual, direction * sine, 2 * halfSine * halfSine);
    sine = halfSine;
    cosine = halfCosine;
  }
}

function inverse(data) {
  transformIn(data, 1);
  const scale = 1 / (data.length / 2);
  for (let at = 0; at < data.length; at += 1) data[at] *= scale;
}

function fft(random) {
  const data = random.numbers(2 * FFT_POINTS);
  for (let cycle = 0; cycle < FFT_CYCLES; cycle += 1) {
    transformIn(data, -1);
    inverse(data);
  }
  transformIn(data, -1);
  return sum(data);
}

function sor(random) {
  const side = SOR_SIDE;
  const grid = random.numbers(side * side);
  const quarter = SOR_OMEGA * 0.25;
  const rest = 1 - SOR_OMEGA;
  for (let sweep = 0; sweep < SOR_SWEEPS; sweep += 1) {
    for (let row = 1; row < side - 1; row += 1) {
      for (let at = row * side + 1; at < row * side + side - 1; at += 1) {
        grid[at] = quarter * (grid[at - side] + grid[at + side] + grid[at - 1] + grid[at + 1]) + rest * grid[at];
      }
    }
  }
  return sum(grid);
}

function monteCarlo(random) {
  let within = 0;
  for (let sample = 0; sample < MONTE_CARLO_SAMPLES; sample += 1) {
    const x = random.next();
    const y = random.next();
    if (x * x + y * y <= 1) within += 1;
  }
  return (within / MONTE_CARLO_SAMPLES) * 4;
}

function sparse(random) {
  const vector = random.numbers(SPARSE_ROWS);
  const inRow = Math.trunc(SPARSE_ENTRIES / SPARSE_ROWS);
  const values = random.numbers(inRow * SPARSE_ROWS);
  const columns = new Int32Array(inRow * SPARSE_ROWS);
  for (let row = 0; row < SPARSE_ROWS; row += 1) {
    const step = Math.max(Math.trunc(row / inRow), 1);
    for (let entry = 0; entry < inRow; entry += 1) columns[row * inRow + entry] = entry * step;
  }
  const product = new Float64Array(SPARSE_ROWS);
  for (let cycle = 0; cycle < SPARSE_CYCLES; cycle += 1) {
    for (let row = 0; row < SPARSE_ROWS; row += 1) {
      let total = 0;
      for (let entry = row * inRow; entry < (row + 1) * inRow; entry += 1) {
        total += vector[columns[entry]] * values[entry];
      }
      product[row] = total;
    }
  }
  return sum(product);
}

function factor(matrix, side, pivots) {
  for (let column = 0; column < side; column += 1) {
    let pivot = column;
    for (let row = column + 1; row < side; row += 1) {
      if (Math.abs(matrix[row * side + column]) > Math.abs(matrix[pivot * side + column])) pivot = row;
    }
    pivots[column] = pivot;
    if (pivot !== column) {
      for (let k = 0; k < side; k += 1) {
        const kept = matrix[pivot * side + k];
        matrix[pivot * side + k] = matrix[column * side + k];
        matrix[column * side + k] = kept;
      }
    }
    const reciprocal = 1 / matrix[column * side + column];
    for (let row = column + 1; row < side; row += 1) matrix[row * side + column] *= reciprocal;
    for (let row = column + 1; row < side; row += 1) {
      const share = matrix[row * side + column];
      for (let k = column + 1; k < side; k += 1) matrix[row * side + k] -= share * matrix[column * side + k];
    }
  }
}

function lu(random) {
  const matrix = random.numbers(LU_SIDE * LU_SIDE);
  const factors = new Float64Array(matrix.length);
  const pivots = new Int32Array(LU_SIDE);
  for (let cycle = 0; cycle < LU_CYCLES; cycle += 1) {
    factors.set(matrix);
    factor(factors, LU_SIDE, pivots);
  }
  return sum(factors) + sum(pivots);
}

const KERNELS = new Map([
  ["fft", fft],
  ["sor", sor],
  ["monte-carlo", monteCarlo],
  ["sparse", sparse],
  ["lu", lu],
]);

/** Whether there is a kernel of this name. */
export function isKernel(name) {
  return KERNELS.has(name);
}

/** Runs a kernel on the input that belongs to a seed. */
export function run(name, seed) {
  return KERNELS.get(name)(new Random(seed));
}

const bits = new DataView(new ArrayBuffer(8));

/** A result as sixteen hexadecimal digits, which lose nothing. */
export function digits(value) {
  bits.setFloat64(0, value);
  return bits.getBigUint64(0).toString(16).padStart(16, "0");
}
