#include "runtime/data/gpt_dataset.hpp"

#include "runtime/data/mock_dataset.hpp"
#include "tests/runtime/data/golden.hpp"
#include "tests/support/broken.hpp"
#include "tests/support/sample_row.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace troupe::runtime;
using namespace troupe::tests;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

namespace {

std::shared_ptr<const token_source> write_source(const scratch_folder& folder,
                                                 const std::vector<std::int32_t>& lengths,
                                                 std::int64_t vocabulary = 97) {
  std::vector<std::vector<std::int32_t>> documents;
  for (const auto length : lengths)
    documents.push_back({length});
  write_dataset(folder / "data", vocabulary, documents);
  return std::make_shared<indexed_dataset>(folder / "data");
}

void check_array(const index_array& found, const json& expected, const scratch_folder& folder) {
  CHECK(found.shape().extents == expected["shape"].get<std::vector<std::int64_t>>());
  found.save(folder / "array.npy");
  const auto npy = read_text(folder / "array.npy");
  if (expected.contains("values")) {
    std::vector<std::int64_t> values;
    for (std::size_t i = 0; i < found.size(); ++i)
      values.push_back(found[i]);
    CHECK(values == expected["values"].get<std::vector<std::int64_t>>());
  }
  CHECK(sha256_of(npy.data(), npy.size()) == expected["npy_sha256"]);
}

void check_part(const gpt_dataset& data, const json& expected, const scratch_folder& folder) {
  CHECK(data.size() == expected["samples"]);
  check_array(data.index().documents, expected["document_index"], folder);
  check_array(data.index().bounds, expected["sample_index"], folder);
  check_array(data.index().order, expected["shuffle_index"], folder);
  for (const auto& row : expected["rows"]) {
    const auto found = row_of(data, row["i"]);
    INFO("sample " << row["i"]);
    CHECK(found.tokens == row["tokens"].get<std::vector<std::int32_t>>());
    CHECK(found.labels == row["labels"].get<std::vector<std::int32_t>>());
    CHECK(found.mask == row["loss_mask"].get<std::vector<float>>());
    CHECK(found.positions == row["position_ids"].get<std::vector<std::int32_t>>());
  }
}

}  // namespace

TEST_CASE("samples, their order and its files equal those of megatron-core", "[data][golden]") {
  for (const auto& c : golden()["gpt"]) {
    const scratch_folder folder;
    INFO("sequence length " << c["sequence_length"] << ", seed " << c["seed"] << ", requested "
                            << c["requested"]);
    const auto source = write_source(folder, c["lengths"].get<std::vector<std::int32_t>>());
    const auto& more = c["options"];
    for (const auto part : {data_split::train, data_split::valid, data_split::test}) {
      const auto expected = c["parts"].find(std::string(to_string(part)));
      if (expected == c["parts"].end())
        continue;
      const gpt_dataset data(source,
                             split_matrix(c["split"].get<std::string>()),
                             part,
                             {.sequence_length = c["sequence_length"],
                              .samples = c["requested"][std::size_t(part)].get<std::uint64_t>(),
                              .seed = c["seed"],
                              .vocabulary = 97,
                              .end_of_document = 0,
                              .eod_mask_loss = more.value("eod_mask_loss", false),
                              .reset_position_ids = more.value("reset_position_ids", false),
                              .drop_last_partial_validation
                              = more.value("drop_last_partial_validation_sequence", true)});
      check_part(data, *expected, folder);
    }
  }
}

TEST_CASE("mock data equal those of megatron-core", "[data][golden]") {
  const scratch_folder folder;
  const auto& c = golden()["mock"];
  const auto source = std::make_shared<mock_dataset>(c["vocabulary"], c["eod"]);
  REQUIRE(source->sequences() == 100'000);
  std::vector<std::int32_t> lengths;
  for (std::int64_t s = 0; s < source->sequences(); ++s)
    lengths.push_back(source->length(s));
  CHECK(std::vector(lengths.begin(), lengths.begin() + 20)
        == c["lengths"].get<std::vector<std::int32_t>>());
  CHECK(sha256_of(lengths.data(), 4 * lengths.size()) == c["lengths_sha256"]);

  std::vector<std::int32_t> all(std::size_t(source->length(c["sequence"])));
  source->get(c["sequence"], 0, all);
  CHECK(sha256_of(all.data(), 4 * all.size()) == c["sequence_tokens_sha256"]);
  const auto slice = c["slice"][2].get<std::vector<std::int32_t>>();
  std::vector<std::int32_t> some(slice.size());
  source->get(c["slice"][0], c["slice"][1], some);
  CHECK(some == slice);

  const std::uint64_t requested[] = {1000, 20, 20};
  for (const auto part : {data_split::train, data_split::valid, data_split::test})
    check_part(gpt_dataset(source,
                           split_matrix("1,1,1"),
                           part,
                           {.sequence_length = 32,
                            .samples = requested[std::size_t(part)],
                            .vocabulary = c["vocabulary"],
                            .end_of_document = c["eod"]}),
               c["parts"][std::string(to_string(part))],
               folder);
  CHECK_THROWS_WITH(mock_dataset(10, 10), ContainsSubstring("end-of-document id 10"));
}

TEST_CASE("without a number of samples there is one epoch", "[data]") {
  const scratch_folder folder;
  const gpt_dataset data(write_source(folder, {5, 3, 7, 2, 9, 4}),
                         split_matrix("1"),
                         data_split::train,
                         {.sequence_length = 4, .vocabulary = 97});
  CHECK(data.plan().epochs == 1);
  CHECK(data.size() == 7);
}

TEST_CASE("an id beyond the vocabulary is reported with file and document", "[data]") {
  const scratch_folder folder;
  const auto source = write_source(folder, {5, 3, 7}, 97);
  const gpt_dataset data(source,
                         split_matrix("1"),
                         data_split::train,
                         {.sequence_length = 7, .samples = 1, .vocabulary = 60});
  std::vector<std::int32_t> text(8);
  CHECK_THROWS_WITH(data.sample(0, text) /* the ids of document 2 start at 64 */,
                    ContainsSubstring("data.bin', document 2 (sequence 2)")
                        && ContainsSubstring("vocabulary of 60 ids"));
}

TEST_CASE("a sample beyond the end is refused, without wrapping around", "[data]") {
  const scratch_folder folder;
  const gpt_dataset data(write_source(folder, {5, 3, 7}),
                         split_matrix("1"),
                         data_split::train,
                         {.sequence_length = 7, .samples = 2, .vocabulary = 97});
  std::vector<std::int32_t> text(8);
  CHECK_NOTHROW(data.sample(data.size() - 1, text));
  CHECK_THROWS_WITH(data.sample(data.size(), text),
                    ContainsSubstring("train data: it has 2 samples"));
  CHECK_BREAKS("SAMPLE-1", data.sample(0, std::span(text).first(7)));
  CHECK_BREAKS("SAMPLE-2", fill_other_length(data, 8));
}

TEST_CASE("a part without tokens and invalid options are refused", "[data]") {
  const scratch_folder folder;
  const auto source = write_source(folder, {5, 3, 7, 0});
  const auto make = [&](const char* split, data_split part, gpt_dataset_options options) {
    return gpt_dataset(source, split_matrix(split), part, options);
  };
  const gpt_dataset_options good{.sequence_length = 4, .samples = 1, .vocabulary = 97};
  CHECK_THROWS_WITH(make("1,0,0", data_split::valid, good),
                    ContainsSubstring("valid data") && ContainsSubstring("there are none"));
  CHECK_THROWS_WITH(make("3,0,1", data_split::test, good),
                    ContainsSubstring("they have no tokens"));
  auto bad = good;
  bad.sequence_length = 0;
  CHECK_THROWS_WITH(make("1", data_split::train, bad), ContainsSubstring("samples of 0 tokens"));
  bad = good;
  bad.samples = ~std::uint64_t{0};
  CHECK_THROWS_WITH(make("1", data_split::train, bad), ContainsSubstring("more than 2^62 tokens"));
  bad = good;
  bad.end_of_document = 97;
  CHECK_THROWS_AS(make("1", data_split::train, bad), input_error);
}

TEST_CASE("indices are 64 bits wide under the same conditions as in megatron-core", "[data]") {
  gpt_index_plan plan;
  gpt_index_request request{.range = {0, 1 << 20}};
  plan.epochs = 2047;
  CHECK(plan.bounds(request).type == index_type::i32);
  plan.epochs = 2048;
  CHECK(plan.bounds(request).type == index_type::i64);
  plan.samples = 0xfffffffdLL;
  CHECK(plan.order().type == index_type::u32);
  plan.samples = 0xfffffffeLL;
  CHECK(plan.order().type == index_type::i64);
}
