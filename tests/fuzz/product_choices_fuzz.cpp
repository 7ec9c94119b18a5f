// Fuzzes the file of product choices of a GPU.

#include "runtime/device/product_choices.hpp"
#include "tests/fuzz/fuzz.hpp"

#include <algorithm>
#include <cmath>

using namespace troupe::runtime;
using namespace troupe::tests;

std::vector<std::string> fuzz::seeds() {
  const auto path = fuzz::folder() / "seed.json";
  add_product_choices(path,
                      {{"a gelu+z 8x8x8", std::string(128, '1'), 61.5, 8},
                       {"b", std::string(128, '2'), 0, 1},
                       {"f32 8x8x8", std::string(kernels::no_algorithm), 0, 0}});
  return {fuzz::get(path)};
}

std::vector<std::string> fuzz::dictionary() {
  return {"\"choices\": [",
          "\"version\": 2",
          "\"product\": \"\"",
          "-1",
          "1e999",
          "18446744073709551616",
          "nan",
          "null",
          "[[[[",
          "{}",
          "\\u0000",
          "0123456789abcdef",
          "\xff"};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto path = fuzz::folder() / "x.json", again = fuzz::folder() / "again.json";
  fuzz::put(path, fuzz::text_of(data, size));
  std::filesystem::remove(again);
  fuzz::accepted([&] {
    auto found = load_product_choices(path);
    for (const auto& x : found)
      fuzz::require(!x.product.empty() && std::isfinite(x.microseconds) && x.microseconds >= 0,
                    "a choice names its product and has a valid time");
    lack_gelu_gradient(found);
    add_product_choices(again, found);
    std::ranges::sort(found, {}, &product_choice::product);  // the order in the file
    fuzz::require(load_product_choices(again) == found, "choices survive a round trip");
  });
  return 0;
}
