// The file of product choices.

#include "runtime/device/product_choices.hpp"
#include "tests/fuzz/fuzz.hpp"

#include <algorithm>
#include <cmath>

using namespace troupe::runtime;
using namespace troupe::tests;

namespace {

bool by_name(const product_choice& a, const product_choice& b) {
  return a.product < b.product;
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  const auto path = fuzz::folder() / "seed.json";
  add_product_choices(path,
                      {{.product = "f32 8x8x8",
                        .algorithm = std::string(kernels::no_algorithm),
                        .microseconds = 0,
                        .candidates = 0}});
  return {fuzz::get(path)};
}

std::vector<std::string> fuzz::dictionary() {
  return {"\"choices\": [",
          "\"version\": 2",
          "\"product\": \"\"",
          "-1",
          "1e999",
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
                    "a choice is of a product, and took some time");
    lack_gelu_gradient(found);
    add_product_choices(again, found);
    std::sort(found.begin(), found.end(), by_name);
    fuzz::require(load_product_choices(again) == found, "choices are written again as they were");
  });
  return 0;
}
