// Fuzzes the words of a blend of data sets, and the JSON with one blend per part.

#include "runtime/data/blend.hpp"
#include "tests/fuzz/fuzz.hpp"

#include <cmath>

using namespace troupe::runtime;
using namespace troupe::tests;

std::vector<std::string> fuzz::seeds() {
  return {"0.3 a/b_text_document 0.7 c",
          "a b c",
          "1e-3\tx\n2 y\n+.5 z 4 w",
          R"({"train": ["30", "a", "70", "b"], "valid": "c", "test": null})",
          R"({"train": [1, "a", 2, "b"]})"};
}

std::vector<std::string> fuzz::dictionary() {
  return {"nan", "inf", "-1", "0", "1e999", " 1 ", "null", "[]", "[[", "{}", "\"train\"", "\xff"};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(fuzz::text_of(data, size));
  const auto check = [](const data_blend& x) {
    fuzz::require(x.weights.empty() || x.weights.size() == x.prefixes.size(),
                  "each data set has a weight, or none has");
    for (const double weight : x.weights)
      fuzz::require(weight > 0 && std::isfinite(weight), "a weight is above 0 and finite");
    if (x.weights.empty())
      return;
    const auto order = build_blend(normalized(x.weights), 50);
    for (const auto set : order.dataset)
      fuzz::require(std::size_t(set) < x.prefixes.size(),
                    "a sample belongs to a data set of the blend");
  };
  fuzz::accepted([&] { check(blend_from_text(text)); });
  fuzz::accepted([&] {
    for (const auto& part : blends_from_json(text))
      check(part);
  });
  return 0;
}
