//! The five kernels of SciMark 2.0, written anew, in the sizes that it calls small: fast Fourier transform, successive
//! over-relaxation, Monte Carlo integration, sparse matrix times vector, LU factorization.
//!
//! Each takes its input from a seed, works for about a millisecond and gives one number. Only addition, subtraction,
//! multiplication, division and square roots are used, each rounded as IEEE 754 says and in a fixed order: any language gives the
//! same bits. `kernels.mjs` beside this file is the same in JavaScript.

/// One of the kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kernel {
    /// Fast Fourier transform of 1,024 complex numbers, forth and back.
    Fft,
    /// Jacobi successive over-relaxation on a grid of 100 by 100.
    Sor,
    /// Monte Carlo integration of a quarter of a circle.
    MonteCarlo,
    /// A sparse matrix of 1,000 rows and 5,000 entries times a vector.
    Sparse,
    /// LU factorization with partial pivoting of a matrix of 100 by 100.
    Lu,
}

const FFT_POINTS: usize = 1_024;
const FFT_CYCLES: u32 = 64;
const SOR_SIDE: usize = 100;
const SOR_SWEEPS: u32 = 26;
const SOR_OMEGA: f64 = 1.25;
const MONTE_CARLO_SAMPLES: u32 = 400_000;
const SPARSE_ROWS: usize = 1_000;
const SPARSE_ENTRIES: usize = 5_000;
const SPARSE_CYCLES: u32 = 500;
const LU_SIDE: usize = 100;
const LU_CYCLES: u32 = 16;

impl Kernel {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Fft,
        Self::Sor,
        Self::MonteCarlo,
        Self::Sparse,
        Self::Lu,
    ];

    /// Its name in addresses.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fft => "fft",
            Self::Sor => "sor",
            Self::MonteCarlo => "monte-carlo",
            Self::Sparse => "sparse",
            Self::Lu => "lu",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kernel| kernel.name() == name)
    }

    /// Runs it on the input that belongs to a seed.
    pub fn run(self, seed: u32) -> f64 {
        let mut random = Random::new(seed);
        match self {
            Self::Fft => run_fft(&mut random),
            Self::Sor => run_sor(&mut random),
            Self::MonteCarlo => monte_carlo(MONTE_CARLO_SAMPLES, &mut random),
            Self::Sparse => run_sparse(&mut random),
            Self::Lu => run_lu(&mut random),
        }
    }
}

/// A result as sixteen hexadecimal digits, which lose nothing.
pub fn digits(value: f64) -> String {
    format!("{:016x}", value.to_bits())
}

fn sum(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().fold(0.0, |sum, value| sum + value)
}

const RANDOM_MODULUS: i64 = 2_147_483_647;
const RANDOM_HALF: i64 = 65_536;
const RANDOM_FACTOR: i64 = 9_069;

/// SciMark's generator of random numbers: a lagged Fibonacci generator over 17 numbers, by subtraction.
#[derive(Debug, Clone)]
pub struct Random {
    numbers: [i64; 17],
    i: usize,
    j: usize,
}

impl Random {
    /// The one that belongs to a seed; an even seed gives the same as the odd one before it.
    pub fn new(seed: u32) -> Self {
        let seed = i64::from(seed).min(RANDOM_MODULUS);
        let seed = if seed % 2 == 0 { seed - 1 } else { seed };
        let (factor_low, factor_high) = (RANDOM_FACTOR % RANDOM_HALF, RANDOM_FACTOR / RANDOM_HALF);
        let (mut low, mut high) = (seed % RANDOM_HALF, seed / RANDOM_HALF);
        let numbers = std::array::from_fn(|_| {
            let product = low * factor_low;
            high =
                (product / RANDOM_HALF + low * factor_high + high * factor_low) % (RANDOM_HALF / 2);
            low = product % RANDOM_HALF;
            low + RANDOM_HALF * high
        });
        Self {
            numbers,
            i: 4,
            j: 16,
        }
    }

    /// The next number, from 0 to 1.
    pub fn next_number(&mut self) -> f64 {
        let mut difference = self.numbers[self.i] - self.numbers[self.j];
        if difference < 0 {
            difference += RANDOM_MODULUS;
        }
        self.numbers[self.j] = difference;
        self.i = if self.i == 0 { 16 } else { self.i - 1 };
        self.j = if self.j == 0 { 16 } else { self.j - 1 };
        difference as f64 * (1.0 / RANDOM_MODULUS as f64)
    }

    /// So many numbers.
    pub fn numbers(&mut self, count: usize) -> Vec<f64> {
        (0..count).map(|_| self.next_number()).collect()
    }
}

fn run_fft(random: &mut Random) -> f64 {
    let mut data = random.numbers(2 * FFT_POINTS);
    for _ in 0..FFT_CYCLES {
        transform(&mut data);
        inverse(&mut data);
    }
    transform(&mut data);
    sum(data)
}

/// Transforms complex numbers, real and imaginary parts in turn, as many as a power of two.
pub fn transform(data: &mut [f64]) {
    transform_in(data, -1.0);
}

/// Undoes a transform.
pub fn inverse(data: &mut [f64]) {
    transform_in(data, 1.0);
    let scale = 1.0 / (data.len() / 2) as f64;
    for value in data {
        *value *= scale;
    }
}

fn transform_in(data: &mut [f64], direction: f64) {
    let points = data.len() / 2;
    reverse_bits(data);
    // Sine and cosine of half a turn, halved with each step: no library of another language differs in them.
    let (mut sine, mut cosine) = (0.0_f64, -1.0_f64);
    let mut dual = 1;
    while dual < points {
        let half_cosine = ((1.0 + cosine) * 0.5).sqrt();
        let half_sine = if half_cosine == 0.0 {
            1.0
        } else {
            sine / (2.0 * half_cosine)
        };
        butterflies(data, dual, direction * sine, 2.0 * half_sine * half_sine);
        (sine, cosine) = (half_sine, half_cosine);
        dual *= 2;
    }
}

/// One step of a transform: `sine` is that of its angle, `versed` one less its cosine.
fn butterflies(data: &mut [f64], dual: usize, sine: f64, versed: f64) {
    let points = data.len() / 2;
    let (mut real, mut imaginary) = (1.0, 0.0);
    for a in 0..dual {
        if a > 0 {
            let turned = real - sine * imaginary - versed * real;
            imaginary = imaginary + sine * real - versed * imaginary;
            real = turned;
        }
        for b in (0..points).step_by(2 * dual) {
            let i = 2 * (b + a);
            let j = 2 * (b + a + dual);
            let (first, second) = (data[j], data[j + 1]);
            let product_real = real * first - imaginary * second;
            let product_imaginary = real * second + imaginary * first;
            data[j] = data[i] - product_real;
            data[j + 1] = data[i + 1] - product_imaginary;
            data[i] += product_real;
            data[i + 1] += product_imaginary;
        }
    }
}

fn reverse_bits(data: &mut [f64]) {
    let points = data.len() / 2;
    let mut j = 0;
    for i in 0..points - 1 {
        if i < j {
            data.swap(2 * i, 2 * j);
            data.swap(2 * i + 1, 2 * j + 1);
        }
        let mut k = points / 2;
        while k <= j {
            j -= k;
            k /= 2;
        }
        j += k;
    }
}

fn run_sor(random: &mut Random) -> f64 {
    let mut grid = random.numbers(SOR_SIDE * SOR_SIDE);
    relax(&mut grid, SOR_SIDE, SOR_OMEGA, SOR_SWEEPS);
    sum(grid)
}

/// Relaxes the inner points of a square grid, row by row.
pub fn relax(grid: &mut [f64], side: usize, omega: f64, sweeps: u32) {
    let (quarter, rest) = (omega * 0.25, 1.0 - omega);
    for _ in 0..sweeps {
        for row in 1..side - 1 {
            let (above, from) = grid.split_at_mut(row * side);
            let (own, below) = from.split_at_mut(side);
            let above = &above[(row - 1) * side..];
            for column in 1..side - 1 {
                own[column] = quarter
                    * (above[column] + below[column] + own[column - 1] + own[column + 1])
                    + rest * own[column];
            }
        }
    }
}

/// The number pi, from how many random points of a square lie within a quarter of a circle.
pub fn monte_carlo(samples: u32, random: &mut Random) -> f64 {
    let mut within = 0_u32;
    for _ in 0..samples {
        let (x, y) = (random.next_number(), random.next_number());
        within += u32::from(x * x + y * y <= 1.0);
    }
    f64::from(within) / f64::from(samples) * 4.0
}

/// A sparse matrix by rows.
#[derive(Debug)]
pub struct Sparse {
    values: Vec<f64>,
    columns: Vec<usize>,
    /// Where each row begins, and where the last one ends.
    rows: Vec<usize>,
}

impl Sparse {
    /// As many entries in each row, spread below the diagonal as SciMark does.
    pub fn new(rows: usize, entries: usize, random: &mut Random) -> Self {
        let in_row = entries / rows;
        let values = random.numbers(in_row * rows);
        let columns = (0..rows).flat_map(|row| {
            let step = (row / in_row).max(1);
            (0..in_row).map(move |entry| entry * step)
        });
        Self {
            values,
            columns: columns.collect(),
            rows: (0..=rows).map(|row| row * in_row).collect(),
        }
    }

    /// Multiplies it by a vector.
    pub fn multiply(&self, vector: &[f64], product: &mut [f64]) {
        for (row, value) in product.iter_mut().enumerate() {
            let (begin, end) = (self.rows[row], self.rows[row + 1]);
            let entries = self.values[begin..end]
                .iter()
                .zip(&self.columns[begin..end]);
            *value = sum(entries.map(|(value, column)| vector[*column] * value));
        }
    }
}

fn run_sparse(random: &mut Random) -> f64 {
    let vector = random.numbers(SPARSE_ROWS);
    let matrix = Sparse::new(SPARSE_ROWS, SPARSE_ENTRIES, random);
    let mut product = vec![0.0; SPARSE_ROWS];
    for _ in 0..SPARSE_CYCLES {
        matrix.multiply(std::hint::black_box(&vector), &mut product);
    }
    sum(product)
}

fn run_lu(random: &mut Random) -> f64 {
    let matrix = random.numbers(LU_SIDE * LU_SIDE);
    let mut factors = matrix.clone();
    let mut pivots = vec![0; LU_SIDE];
    for _ in 0..LU_CYCLES {
        factors.copy_from_slice(std::hint::black_box(&matrix));
        factor(&mut factors, LU_SIDE, &mut pivots);
    }
    sum(factors) + sum(pivots.into_iter().map(|pivot| pivot as f64))
}

/// Factors a square matrix in place into a lower and an upper one; `pivots` says with which row each was exchanged.
pub fn factor(matrix: &mut [f64], side: usize, pivots: &mut [usize]) {
    for column in 0..side {
        let pivot = largest_below(matrix, side, column);
        pivots[column] = pivot;
        if pivot != column {
            for k in 0..side {
                matrix.swap(pivot * side + k, column * side + k);
            }
        }
        let reciprocal = 1.0 / matrix[column * side + column];
        for row in column + 1..side {
            matrix[row * side + column] *= reciprocal;
        }
        eliminate(matrix, side, column);
    }
}

fn largest_below(matrix: &[f64], side: usize, column: usize) -> usize {
    let mut pivot = column;
    for row in column + 1..side {
        if matrix[row * side + column].abs() > matrix[pivot * side + column].abs() {
            pivot = row;
        }
    }
    pivot
}

fn eliminate(matrix: &mut [f64], side: usize, column: usize) {
    let (upper, lower) = matrix.split_at_mut((column + 1) * side);
    let pivot_row = &upper[column * side + column + 1..];
    for row in lower.chunks_exact_mut(side) {
        let factor = row[column];
        for (value, above) in row[column + 1..].iter_mut().zip(pivot_row) {
            *value -= factor * above;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What each kernel gives for the seeds 1, 113 and 4,711; the test of `kernels.mjs` has the same list.
    const KNOWN: [(Kernel, [&str; 3]); 5] = [
        (
            Kernel::Fft,
            ["4082090a57e41237", "4085fd90d7ebfb17", "40922eacb4045d60"],
        ),
        (
            Kernel::Sor,
            ["40b38e26c8d33580", "40b35c0c880ea1aa", "40b37114de3d3608"],
        ),
        (
            Kernel::MonteCarlo,
            ["40092bf338716095", "40091a5b9628cbd1", "40091c432ca57a78"],
        ),
        (
            Kernel::Sparse,
            ["408fb4904ab4affc", "4091a90dc0e94568", "4094908ee4e11b92"],
        ),
        (
            Kernel::Lu,
            ["40bebad61d781f1f", "40be464d9450ce1f", "40bf7248d140ff8a"],
        ),
    ];

    #[test]
    fn results_are_known_to_the_last_bit() {
        for (kernel, known) in KNOWN {
            let found = [1, 113, 4_711].map(|seed| digits(kernel.run(seed)));
            assert_eq!(found, known, "{}", kernel.name());
        }
    }

    #[test]
    fn names_lead_to_kernels() {
        for kernel in Kernel::ALL {
            assert_eq!(Kernel::named(kernel.name()), Some(kernel));
        }
        assert_eq!(Kernel::named("nothing"), None);
    }

    #[test]
    fn random_numbers_are_even_and_depend_on_the_seed() {
        let numbers = Random::new(113).numbers(100_000);
        let mean = sum(numbers.iter().copied()) / 100_000.0;
        assert!((mean - 0.5).abs() < 0.005, "{mean}");
        assert!(numbers.iter().all(|number| (0.0..=1.0).contains(number)));
        assert_ne!(Random::new(113).numbers(3), Random::new(115).numbers(3));
    }

    #[test]
    fn a_transform_is_the_sum_it_stands_for_and_can_be_undone() {
        let given = Random::new(7).numbers(64);
        let mut data = given.clone();
        transform(&mut data);
        for (frequency, found) in data.chunks_exact(2).enumerate() {
            let (mut real, mut imaginary) = (0.0, 0.0);
            for (point, value) in given.chunks_exact(2).enumerate() {
                let turn = -2.0 * std::f64::consts::PI * (frequency * point) as f64 / 32.0;
                real += value[0] * turn.cos() - value[1] * turn.sin();
                imaginary += value[0] * turn.sin() + value[1] * turn.cos();
            }
            assert!((real - found[0]).abs() < 1e-12);
            assert!((imaginary - found[1]).abs() < 1e-12);
        }
        inverse(&mut data);
        assert!(
            data.iter()
                .zip(&given)
                .all(|(left, right)| (left - right).abs() < 1e-14)
        );
    }

    #[test]
    fn relaxation_ends_at_the_solution_of_the_equation() {
        // A plane solves Laplace's equation; its border is given, the rest begins with zero.
        let side = 12;
        let plane = |at: usize| (at / side) as f64 + 2.0 * (at % side) as f64;
        let is_border = |at: usize| {
            [0, side - 1].contains(&(at / side)) || [0, side - 1].contains(&(at % side))
        };
        let mut grid: Vec<f64> = (0..side * side)
            .map(|at| if is_border(at) { plane(at) } else { 0.0 })
            .collect();
        relax(&mut grid, side, SOR_OMEGA, 500);
        for (at, value) in grid.iter().enumerate() {
            assert!((value - plane(at)).abs() < 1e-9, "{at}: {value}");
        }
    }

    #[test]
    fn points_in_a_circle_give_pi() {
        let pi = monte_carlo(1_000_000, &mut Random::new(113));
        assert!((pi - std::f64::consts::PI).abs() < 0.005, "{pi}");
    }

    #[test]
    fn a_sparse_product_is_that_of_the_full_matrix() {
        let mut random = Random::new(9);
        let vector = random.numbers(40);
        let matrix = Sparse::new(40, 200, &mut random);
        let mut product = vec![0.0; 40];
        matrix.multiply(&vector, &mut product);
        let mut full = vec![0.0; 40 * 40];
        for row in 0..40 {
            for entry in matrix.rows[row]..matrix.rows[row + 1] {
                full[row * 40 + matrix.columns[entry]] += matrix.values[entry];
            }
        }
        for (row, value) in product.iter().enumerate() {
            let expected = sum((0..40).map(|column| full[row * 40 + column] * vector[column]));
            assert!((value - expected).abs() < 1e-12);
        }
    }

    #[test]
    fn factors_give_the_matrix_again() {
        let side = 30;
        let matrix = Random::new(5).numbers(side * side);
        let (mut factors, mut pivots) = (matrix.clone(), vec![0; side]);
        factor(&mut factors, side, &mut pivots);
        let mut permuted = matrix;
        for (row, pivot) in pivots.into_iter().enumerate() {
            for column in 0..side {
                permuted.swap(row * side + column, pivot * side + column);
            }
        }
        for row in 0..side {
            for column in 0..side {
                let lower = |k: usize| {
                    if k == row {
                        1.0
                    } else {
                        factors[row * side + k]
                    }
                };
                let product =
                    sum((0..=row.min(column)).map(|k| lower(k) * factors[k * side + column]));
                assert!((product - permuted[row * side + column]).abs() < 1e-12);
            }
        }
    }
}
