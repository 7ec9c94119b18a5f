// The file of product choices of a GPU.

#include "runtime/device/product_choices.hpp"
#include "tests/fuzz/fuzz.hpp"

#include <algorithm>

using namespace troupe::runtime;
using namespace troupe::tests;

std::vector<std::string> fuzz::seeds() {
  const auto file = fuzz::folder() / "seed.json";
  add_product_choices(file,
                      {{"a", std::string(128, '1'), 61.5, 8}, {"b", std::string(128, '2'), 0, 1}});
  return {fuzz::get(file)};
}

std::vector<std::string> fuzz::dictionary() {
  return {"null", "-1", "1e999", "[]", "{}", "nan", "\"", "18446744073709551616", "\xff"};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto file = fuzz::folder() / "products.json", again = fuzz::folder() / "again.json";
  fuzz::put(file, fuzz::text_of(data, size));
  fuzz::accepted([&] {
    auto choices = load_product_choices(file);
    lack_gelu_gradient(choices);
    std::filesystem::remove(again);
    add_product_choices(again, choices);
    std::ranges::sort(choices, {}, &product_choice::product);  // as they are written
    fuzz::require(choices.empty() || load_product_choices(again) == choices,
                  "choices come back from their file");
  });
  return 0;
}
