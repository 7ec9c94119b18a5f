#include "runtime/data/blend.hpp"

#include "runtime/data/blended_dataset.hpp"
#include "runtime/data/gpt_dataset.hpp"
#include "tests/runtime/data/golden.hpp"
#include "tests/support/broken.hpp"
#include "tests/support/sample_row.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cstdlib>

using namespace troupe::runtime;
using namespace troupe::tests;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

namespace {

/// Reference output of megatron-core (tests/golden/data/blends.py).
const json& golden_blends() {
  static const auto all = json::parse(read_text(source_dir() + "/tests/golden/data/blends.json"));
  return all;
}

void check_order(const blend_order& found, const json& expected) {
  CHECK(found.dataset.size() == expected["size"]);
  CHECK(sha256_of(found.dataset.data(), found.dataset.size() * sizeof(std::int16_t))
        == expected["dataset_sha256"]);
  CHECK(sha256_of(found.sample.data(), found.sample.size() * sizeof(std::int64_t))
        == expected["sample_sha256"]);
  if (expected.contains("dataset")) {
    CHECK(json(found.dataset) == expected["dataset"]);
    CHECK(json(found.sample) == expected["sample"]);
  }
}

std::string blend_refusal(const std::vector<std::string>& words) {
  try {
    blend_from_words(words);
  } catch (const input_error& failure) {
    return failure.what();
  }
  return "";
}

std::string json_refusal(const std::string& text) {
  try {
    blends_from_json(text);
  } catch (const input_error& failure) {
    return failure.what();
  }
  return "";
}

/// Every sample of one part of a reference blend of small data sets.
json rows_of(const json& c, data_split part, const scratch_folder& folder) {
  data_blend blend;
  const auto& lengths = c["lengths"];
  for (std::size_t d = 0; d < lengths.size(); ++d) {
    blend.prefixes.push_back(folder / std::to_string(d));
    std::vector<std::vector<std::int32_t>> documents;
    for (const auto& length : lengths[d])
      documents.push_back({length.get<std::int32_t>()});
    write_dataset(blend.prefixes.back(), 97, documents);
  }
  if (!c["weights"].is_null())
    blend.weights = c["weights"].get<std::vector<double>>();
  const auto split = c["split"].is_null() ? split_matrix(part == data_split::train ? "1" : "0,1")
                                          : split_matrix(c["split"].get<std::string>());
  const auto open = [&](const std::filesystem::path& prefix, std::optional<std::uint64_t> samples) {
    return std::make_shared<gpt_dataset>(
        std::make_shared<indexed_dataset>(prefix),
        split,
        part,
        gpt_dataset_options{.sequence_length = 4, .samples = samples, .vocabulary = 97});
  };
  const blended_dataset data(blend, c["requested"][std::size_t(part)].get<std::uint64_t>(), open);
  auto out = json::array();
  for (std::uint64_t i = 0; i < data.size(); ++i)
    out.push_back(row_of(data, i).tokens);
  return out;
}

/// A data set of 5 empty samples.
struct five final : sample_dataset {
  std::uint64_t size() const override { return 5; }
  batch_schema schema() const override { return token_schema(length); }
  void fill(std::uint64_t, const sample_view&) const override {}
  std::int64_t length = 4;
};

}  // namespace

TEST_CASE("a weighted blend has the sizes and the order of megatron-core", "[data][golden]") {
  for (const auto& c : golden_blends()["weighted"]) {
    const auto weights = c["weights"].get<std::vector<double>>();
    const std::uint64_t samples = c["samples"];
    INFO(weights.size() << " data sets, " << samples << " samples");
    const auto once = normalized(weights);
    for (std::size_t d = 0; d < weights.size(); ++d)
      CHECK(once[d] == std::strtod(c["normalized"][d].get<std::string>().c_str(), nullptr));
    const auto sizes = blend_sizes(once, samples);
    std::uint64_t size = 0;
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      CHECK(with_surplus(sizes[d]) == c["asked"][d]);
      size += sizes[d];
    }
    check_order(build_blend(normalized(once), size), c["order"]);
  }
}

TEST_CASE("an exhaustive blend has the order of megatron-core", "[data][golden]") {
  for (const auto& c : golden_blends()["exhaustive"])
    check_order(build_exhaustive_blend(c["sizes"].get<std::vector<std::uint64_t>>()), c["order"]);
}

TEST_CASE("a blend has the samples of megatron-core's builder", "[data][golden]") {
  for (const auto& c : golden_blends()["built"]) {
    INFO("weights " << c["weights"].dump());
    for (const auto part : {data_split::train, data_split::valid}) {
      const auto expected = c["parts"].find(std::string(to_string(part)));
      if (expected == c["parts"].end() || expected->empty())
        continue;
      const scratch_folder folder;
      CHECK(rows_of(c, part, folder) == *expected);
    }
  }
}

TEST_CASE("the arguments of a blend have the same meaning as in megatron-core", "[data][golden]") {
  for (const auto& c : golden_blends()["words"]) {
    const auto found = blend_from_words(c["words"].get<std::vector<std::string>>());
    INFO(c["words"].dump());
    CHECK(json(std::vector<std::string>(found.prefixes.begin(), found.prefixes.end()))
          == c["blend"][0]);
    CHECK((found.weights.empty() ? json() : json(found.weights)) == c["blend"][1]);
  }
  CHECK(blend_from_text(" 1 a\n 2\tb\n")
        == blend_from_words(std::vector<std::string>{"1", "a", "2", "b"}));
  const auto parts
      = blends_from_json(R"({"train": [1, "a", "2", "b"], "valid": "c d", "test": null})");
  CHECK(parts[0] == blend_from_text("1 a 2 b"));
  CHECK(parts[1] == blend_from_text("c d"));
  CHECK(parts[2].empty());
}

TEST_CASE("an invalid blend is refused with the wrong argument", "[data]") {
  for (const auto* weight : {"0", "-1", "nan", "inf", "1e999"})
    CHECK_THAT(blend_refusal({weight, "a", "1", "b"}),
               ContainsSubstring(std::string("the weight ") + weight + " of 'a'"));
  CHECK_THAT(blend_refusal({"1", "a", "x", "b"}),
             ContainsSubstring("'x' stands where the weight of 'b'"));
  CHECK_THAT(blend_refusal({"0.3", "a", "0.7"}), ContainsSubstring("their number is even"));
  CHECK_THAT(blend_refusal({"a", "0.7", "b"}), ContainsSubstring("'0.7' is a number"));
  CHECK_THAT(blend_refusal({"0,3", "a", "0,7", "b"}), ContainsSubstring("'0,3' is not a weight"));
  CHECK_THAT(blend_refusal({"30%", "a", "70%", "b"}), ContainsSubstring("'30%' is not a weight"));
  CHECK_THAT(blend_refusal({"a", "1", "b", "2"}),
             ContainsSubstring("'1' is a number")
                 && ContainsSubstring("put each weight before its prefix"));
  CHECK_THAT(blend_refusal({"1e308", "a", "1e308", "b"}), ContainsSubstring("the sum"));
  CHECK_THAT(blend_refusal({"1", ""}), ContainsSubstring("is empty"));
  CHECK_THAT(blend_refusal(std::vector<std::string>(32767, "a")),
             ContainsSubstring("the maximum is"));
  CHECK_THROWS_AS(normalized({1e308, 1e308}), input_error);
  CHECK_THROWS_AS(blend_sizes(std::vector<double>{1}, std::uint64_t{1} << 63), input_error);
  for (const auto* text :
       {"", "[1]", R"({"training": []})", R"({"train": 1})", R"({"train": [[]]})"})
    CHECK(json_refusal(text) != "");
}

TEST_CASE("a blend takes at most all samples of a data set", "[data]") {
  const auto open = [](const std::filesystem::path&, std::optional<std::uint64_t>) {
    return std::make_shared<five>();
  };
  CHECK_THROWS_AS(blended_dataset({.prefixes = {"a", "b"}, .weights = {1, 3}}, 20, open),
                  input_error);
  const blended_dataset all({.prefixes = {"a", "b"}, .weights = {}}, std::nullopt, open);
  CHECK(all.size() == 10);
  CHECK(blended_dataset({.prefixes = {"a", "b"}, .weights = {}}, 99, open).size() == 10);
  CHECK(blended_dataset({.prefixes = {"a", "b"}, .weights = {}}, 3, open).size() == 3);
  CHECK_THROWS_AS(row_of(all, 10), input_error);
  const auto unlike = [n = 4](const std::filesystem::path&, std::optional<std::uint64_t>) mutable {
    auto out = std::make_shared<five>();
    out->length = n++;
    return out;
  };
  CHECK_BREAKS("BLEND-1", blended_dataset({.prefixes = {"a", "b"}, .weights = {}}, 3, unlike));
}
