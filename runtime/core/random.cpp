#include "runtime/core/random.hpp"

#include "kernels/op/philox.hpp"
#include "runtime/core/hash.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace troupe::runtime {
namespace {

using coefficients = std::array<double, 8>;

constexpr coefficients centre_above = {3.3871328727963666080e0,
                                       1.3314166789178437745e+2,
                                       1.9715909503065514427e+3,
                                       1.3731693765509461125e+4,
                                       4.5921953931549871457e+4,
                                       6.7265770927008700853e+4,
                                       3.3430575583588128105e+4,
                                       2.5090809287301226727e+3};
constexpr coefficients centre_below = {1.0,
                                       4.2313330701600911252e+1,
                                       6.8718700749205790830e+2,
                                       5.3941960214247511077e+3,
                                       2.1213794301586595867e+4,
                                       3.9307895800092710610e+4,
                                       2.8729085735721942674e+4,
                                       5.2264952788528545610e+3};
constexpr coefficients middle_above = {1.42343711074968357734e0,
                                       4.63033784615654529590e0,
                                       5.76949722146069140550e0,
                                       3.64784832476320460504e0,
                                       1.27045825245236838258e0,
                                       2.41780725177450611770e-1,
                                       2.27238449892691845833e-2,
                                       7.74545014278341407640e-4};
constexpr coefficients middle_below = {1.0,
                                       2.05319162663775882187e0,
                                       1.67638483018380384940e0,
                                       6.89767334985100004550e-1,
                                       1.48103976427480074590e-1,
                                       1.51986665636164571966e-2,
                                       5.47593808499534494600e-4,
                                       1.05075007164441684324e-9};
constexpr coefficients tail_above = {6.65790464350110377720e0,
                                     5.46378491116411436990e0,
                                     1.78482653991729133580e0,
                                     2.96560571828504891230e-1,
                                     2.65321895265761230930e-2,
                                     1.24266094738807843860e-3,
                                     2.71155556874348757815e-5,
                                     2.01033439929228813265e-7};
constexpr coefficients tail_below = {1.0,
                                     5.99832206555887937690e-1,
                                     1.36929880922735805310e-1,
                                     1.48753612908506148525e-2,
                                     7.86869131145613259100e-4,
                                     1.84631831751005468180e-5,
                                     1.42151175831644588870e-7,
                                     2.04426310338993978564e-15};

// 1 / n, for the series of the logarithm.
constexpr std::array<double, 26> inverses = [] {
  std::array<double, 26> out{};
  for (int n = 1; n < int(out.size()); ++n)
    out[std::size_t(n)] = 1.0 / n;
  return out;
}();

constexpr double central = 0.425;
constexpr double log_of_2 = 0.69314718055994530942;
constexpr double all_words = 4294967296.0;

double polynomial(const coefficients& c, double x) {
  double sum = c[7];
  for (int i = 6; i >= 0; --i)
    sum = sum * x + c[std::size_t(i)];
  return sum;
}

// The C library's logarithm and exponential function have different variants for different
// processors.
double portable_log(double x) {
  int exponent = 0;
  double mantissa = std::frexp(x, &exponent);  // exact
  if (mantissa < 0.70710678118654752440) {
    mantissa *= 2;
    --exponent;
  }
  const double s = (mantissa - 1) / (mantissa + 1), s2 = s * s;
  double sum = 0;
  for (int n = 25; n >= 1; n -= 2)  // s < 0.172: the next term is below 2^-53 of the sum
    sum = sum * s2 + inverses[std::size_t(n)];
  return 2 * s * sum + exponent * log_of_2;
}

double portable_exp(double x) {
  const double exponent = std::nearbyint(x / log_of_2);
  const double rest = x - exponent * log_of_2;  // below 0.347
  double sum = 1;
  for (std::size_t n = 18; n >= 1; --n)
    sum = 1 + rest * inverses[n] * sum;
  return std::ldexp(sum, int(exponent));
}

using lanes = std::array<double, 64>;

// Loops over all lanes vectorize. They do the same operations in the same order as the scalar code
// below.
void polynomials(const coefficients& c, const lanes& x, lanes& sum) {
  sum.fill(c[7]);
  for (int i = 6; i >= 0; --i)
    for (std::size_t j = 0; j < sum.size(); ++j)
      sum[j] = sum[j] * x[j] + c[std::size_t(i)];
}

void normal_quantiles(const lanes& p, lanes& out) {
  lanes q, r, above, below;
  for (std::size_t j = 0; j < p.size(); ++j) {
    q[j] = p[j] - 0.5;
    r[j] = 0.180625 - q[j] * q[j];
  }
  polynomials(centre_above, r, above);
  polynomials(centre_below, r, below);
  for (std::size_t j = 0; j < p.size(); ++j)
    out[j] = q[j] * above[j] / below[j];
  for (std::size_t j = 0; j < p.size(); ++j)
    if (std::abs(q[j]) > central)
      out[j] = normal_quantile(p[j]);
}

}  // namespace

std::uint64_t random_key(std::uint64_t seed, std::string_view name, std::uint64_t step) {
  const std::array<std::uint64_t, 3> parts = {seed, hash64(name), step};
  return hash64(parts.data(), sizeof parts);
}

double normal_quantile(double p) {
  const double q = p - 0.5;
  if (std::abs(q) <= central) {
    const double r = 0.180625 - q * q;
    return q * polynomial(centre_above, r) / polynomial(centre_below, r);
  }
  const double r = std::sqrt(-portable_log(q < 0 ? p : 1 - p));
  const double z = r <= 5 ? polynomial(middle_above, r - 1.6) / polynomial(middle_below, r - 1.6)
                          : polynomial(tail_above, r - 5) / polynomial(tail_below, r - 5);
  return q < 0 ? -z : z;
}

double standard_normal(std::uint64_t key, std::uint64_t index) {
  return normal_quantile((kernels::philox_word(key, 0, index) + 0.5) / all_words);
}

void standard_normals(std::uint64_t key, std::uint64_t first, std::span<double> to) {
  lanes p, out;
  for (std::size_t done = 0; done < to.size();) {
    const auto begin = (first + done) / 4 * 4, skipped = first + done - begin;
    for (std::size_t j = 0; j < p.size(); j += 4) {
      const auto four = kernels::philox(key, kernels::philox_block(0, (begin + j) / 4));
      for (std::size_t k = 0; k < 4; ++k)
        p[j + k] = (four[k] + 0.5) / all_words;
    }
    normal_quantiles(p, out);
    const auto n = std::min(to.size() - done, p.size() - skipped);
    std::copy_n(out.begin() + std::ptrdiff_t(skipped), n, to.begin() + std::ptrdiff_t(done));
    done += n;
  }
}

double uniform(std::uint64_t key, std::uint64_t index) {
  const auto words = kernels::philox(key, kernels::philox_block(0, index));
  const std::uint64_t bits = (std::uint64_t(words[0]) << 21) ^ (words[1] >> 11);
  return double(bits & ((std::uint64_t{1} << 53) - 1)) / 9007199254740992.0;
}

double uniform_between(std::uint64_t key, std::uint64_t index, double first, double last) {
  return first + (last - first) * uniform(key, index);
}

double log_uniform_between(std::uint64_t key, std::uint64_t index, double first, double last) {
  const double from = portable_log(first);
  return std::clamp(
      portable_exp(from + (portable_log(last) - from) * uniform(key, index)), first, last);
}

}  // namespace troupe::runtime
