// Cases of flat arrays: sums, counts, norms and fingerprints (op_case.hpp).

#pragma once

#include "tests/kernels/op_case.hpp"

#include <array>

namespace troupe::tests {

inline op_family sum_family() {
  op_family out{.name = "sum"};
  // Empty; one element; primes; a block of square_norm, and one more; several blocks; several
  // threads.
  for (const std::int64_t n : {0, 1, 7, 61, 4096, 4097, 20011, 100003}) {
    const std::string shape = shape_text({{"n", n}});
    const bool large = n > 70001;
    // Rounded once, so bits equal the reference's.
    out.cases.push_back({.shape = shape,
                         .op = makes([n](auto t, arrays& a) {
                           using T = decltype(t);
                           return kernels::add<T>{.y = a.out<T>("y", n, 1),
                                                  .a = a.in<T>("a", normal_numbers(n)),
                                                  .b = a.in<T>("b", normal_numbers(n)),
                                                  .n = n};
                         }),
                         .in_place = {{"y", "a"}, {"y", "b"}},
                         .bits_of_reference = true,
                         .large = large});
    out.cases.push_back({.shape = shape,
                         .op = makes([n](auto t, arrays& a) {
                           using T = decltype(t);
                           const kernels::count_zeros<T> op{
                               .result = a.out<std::int64_t>("result", 1, 0),
                               .x = a.in<T>("x", numbers_and_zeros(n)),
                               .n = n};
                           a.counts("result", 0);
                           return op;
                         }),
                         .large = large});
    for (const std::int64_t sources : {0, 1, 2, 5, 8}) {
      out.cases.push_back({.shape = shape + " of " + std::to_string(sources),
                           .op = makes([n, sources](auto t, arrays& a) {
                             using T = decltype(t);
                             std::vector<const T*> x;
                             for (std::int64_t s = 0; s < sources; ++s)
                               x.push_back(a.in<T>("x" + std::to_string(s), normal_numbers(n)));
                             return kernels::ordered_sum<T>{.y = a.out<T>("y", n, double(sources)),
                                                            .x = a.on_host(x),
                                                            .sources = sources,
                                                            .n = n,
                                                            .scale = 0.25F};
                           }),
                           .bits_of_reference = true,
                           .large = large});
      if (sources > 1)
        out.cases.back().in_place = {{"y", "x1"}};
    }
  }
  // Includes partly used lanes, a block minus one, and more blocks than one GPU thread adds.
  for (const std::int64_t n : {0, 1, 15, 61, 4095, 4096, 4097, 20011, 70001, 300007})
    out.cases.push_back({.shape = shape_text({{"n", n}}),
                         .op = makes([n](auto t, arrays& a) {
                           using T = decltype(t);
                           // Summed in double in a fixed order: the same bits everywhere.
                           const kernels::square_norm<T> op{.result = a.out<double>("result", 1, 0),
                                                            .x = a.in<T>("x", normal_numbers(n)),
                                                            .n = n};
                           a.counts("result", 0);
                           return op;
                         })});
  // More sources than fit in a kernel's parameters.
  out.cases.push_back({.shape = "n 37 of 500",
                       .op = makes([](auto t, arrays& a) {
                         using T = decltype(t);
                         std::vector<const T*> x;
                         for (int s = 0; s < 500; ++s)
                           x.push_back(a.in<T>("x" + std::to_string(s), normal_numbers(37)));
                         return kernels::ordered_sum<T>{.y = a.out<T>("y", 37, 500),
                                                        .x = a.on_host(x),
                                                        .sources = 500,
                                                        .n = 37,
                                                        .scale = 0.25F};
                       }),
                       .bits_of_reference = true});
  return out;
}

/// Element count of array i: some arrays are empty, two are longer. With large grains, one grain
/// has more blocks than one GPU thread adds.
inline std::int64_t piece_elements(std::int64_t i, std::int64_t grain) {
  return i == 3 ? 9000 : i == 4 ? (grain > 200000 ? 4096 * 70 : 20011) : i * 37 % 301;
}

inline op_family pieces_family() {
  op_family out{.name = "pieces"};
  // No array; one without elements; more than fit in a kernel's parameters.
  for (const std::int64_t count : {0, 1, 5, 250}) {
    // One grain per array; several blocks per grain; an odd size below one block.
    for (const std::int64_t grain : {1 << 17, 8192, 61, 4096 * 65}) {
      if (count == 250 && grain != 61)
        continue;
      const std::string shape = shape_text({{"count", count}, {"grain", grain}});
      out.cases.push_back(
          {.shape = shape,
           .op = makes([=](auto t, arrays& a) {
             using op = kernels::square_norms<decltype(t)>;
             std::vector<typename op::piece> pieces;
             for (std::int64_t i = 0; i < count; ++i)
               pieces.push_back({a.in<decltype(t)>("x" + std::to_string(i),
                                                   normal_numbers(piece_elements(i, grain))),
                                 piece_elements(i, grain)});
             op made{
                 .results = nullptr, .pieces = a.on_host(pieces), .count = count, .grain = grain};
             made.results = a.out<double>("results", grains_of(made), 0);
             a.counts("results", 0);
             return made;
           })});
      out.cases.push_back(
          {.shape = shape,
           .op = makes([=](auto t, arrays& a) {
             using op = kernels::fingerprint<decltype(t)>;
             std::vector<typename op::piece> pieces;
             for (std::int64_t i = 0; i < count; ++i) {
               const std::string number = std::to_string(i);
               const std::int64_t n = piece_elements(i, grain);
               pieces.push_back(
                   {a.in<std::uint32_t>("x" + number, whole_numbers(n, std::int64_t{1} << 32)),
                    n,
                    a.in<std::uint64_t>("key" + number,
                                        numbers_of_64_bits(kernels::grains_in(n, grain)))});
               a.counts("key" + number, 0);
             }
             const op made{.results = a.out<std::uint64_t>("results", 2 * count, 0),
                           .pieces = a.on_host(pieces),
                           .count = count,
                           .grain = grain};
             a.counts("results", 0);
             return made;
           })});
    }
  }
  return out;
}

}  // namespace troupe::tests
