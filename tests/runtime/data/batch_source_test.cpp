#include "runtime/data/batch_source.hpp"

#include "runtime/data/blended_dataset.hpp"
#include "runtime/data/gpt_dataset.hpp"
#include "tests/runtime/data/golden.hpp"
#include "tests/support/broken.hpp"
#include "tests/support/pictures.hpp"
#include "tests/support/sample_row.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

using namespace troupe::runtime;
using namespace troupe::tests;

TEST_CASE("replica r takes rows r m to (r + 1) m - 1 of each micro-batch across replicas",
          "[data]") {
  const batch_layout layout{.micro_batch_size = 2, .data_parallel = 3};
  CHECK(sample_position(layout, 0, 0, 0, 0) == 0);
  CHECK(sample_position(layout, 0, 0, 0, 1) == 1);
  CHECK(sample_position(layout, 0, 0, 2, 1) == 5);
  CHECK(sample_position(layout, 0, 1, 0, 0) == 6);
  CHECK(sample_position(layout, 100, 1, 2, 1) == 111);
}

TEST_CASE("a global batch is distributed completely and once, for any split", "[data]") {
  for (const std::uint64_t micro : {1, 2, 4})
    for (const std::uint64_t replicas : {1, 2, 3}) {
      const batch_layout layout{micro, replicas};
      std::set<std::uint64_t> seen;
      for (std::uint64_t i = 0; i < 24 / (micro * replicas); ++i)
        for (std::uint64_t r = 0; r < replicas; ++r)
          for (std::uint64_t b = 0; b < micro; ++b)
            seen.insert(sample_position(layout, 48, i, r, b));
      CHECK(seen.size() == 24);
      CHECK(*seen.begin() == 48);
      CHECK(*seen.rbegin() == 71);
    }
}

TEST_CASE("DATA-1: a batch holds the samples of its positions, row by row", "[data]") {
  const scratch_folder folder;
  write_dataset(folder / "data", 97, {{5}, {3}, {7}, {2}, {9}, {4}});
  const auto data = std::make_shared<gpt_dataset>(
      std::make_shared<indexed_dataset>(folder / "data"),
      split_matrix("1"),
      data_split::train,
      gpt_dataset_options{.sequence_length = 4, .samples = 12, .vocabulary = 97});
  const dataset_source source(data, {.micro_batch_size = 2, .data_parallel = 2}, memory_pool());
  const auto b = source.microbatch({.consumed = 4, .microbatch = 1, .replica = 1});
  CHECK(b.at("tokens").extents() == shape{2, 4});
  CHECK(b.at("samples").extents() == shape{2});
  for (std::int64_t r = 0; r < 2; ++r) {
    const sample_view view(b, r);
    const auto sample = view.at<std::uint64_t>("samples").front();
    CHECK(sample == 10 + std::uint64_t(r));
    std::vector<std::int32_t> text(5);
    data->sample(sample, text);
    const token_row row(view);
    for (std::size_t t = 0; t < 4; ++t) {
      CHECK(row.tokens[t] == text[t]);
      CHECK(row.labels[t] == text[t + 1]);
      CHECK(row.mask[t] == 1.0F);
      CHECK(row.positions[t] == std::int32_t(t));
    }
  }
  CHECK_THROWS_WITH(source.microbatch({.consumed = 12, .microbatch = 0, .replica = 1}),
                    Catch::Matchers::ContainsSubstring("cannot read sample 14"));
}

TEST_CASE("attention is cut after each end of a document except a last token", "[data]") {
  const scratch_folder folder;
  write_dataset(folder / "data", 97, {{5}, {3}, {7}, {2}, {9}, {4}});
  const auto made = [&](bool cut) {
    return std::make_shared<gpt_dataset>(
        std::make_shared<indexed_dataset>(folder / "data"),
        split_matrix("1"),
        data_split::train,
        gpt_dataset_options{
            .sequence_length = 4, .samples = 6, .vocabulary = 97, .reset_attention_mask = cut});
  };
  const batch_layout layout{.micro_batch_size = 6, .data_parallel = 1};
  CHECK(!dataset_source(made(false), layout, memory_pool()).microbatch({}).has("documents"));
  const auto b = dataset_source(made(true), layout, memory_pool()).microbatch({});
  std::vector<std::int32_t> starts;
  std::vector<std::uint64_t> samples;
  for (std::int32_t r = 0; r < 6; ++r)
    for (std::int32_t t = 0; t < 4; ++t)
      if (t == 0 || sample_view(b, r).at<std::int32_t>("tokens")[std::size_t(t - 1)] == 0) {
        starts.push_back(4 * r + t);
        samples.push_back(std::uint64_t(r));
      }
  CHECK(starts.size() > 6);
  starts.push_back(24);
  const auto found = b.at("documents").elements<std::int32_t>();
  const auto of = b.at("document_samples").elements<std::uint64_t>();
  CHECK(std::vector<std::int32_t>(found.begin(), found.end()) == starts);
  CHECK(std::vector<std::uint64_t>(of.begin(), of.end()) == samples);
}

TEST_CASE("DATA-1: a micro-batch has the tensors of its schema, each with its type and extents",
          "[data]") {
  const dataset_source source(std::make_shared<pictures>(), {.micro_batch_size = 2}, {});
  const auto b = source.microbatch({.consumed = 4, .microbatch = 1});
  CHECK(names_of(b) == "'pixels', 'caption', 'number', 'samples', 'documents', 'document_samples'");
  CHECK(b.at("pixels").extents() == shape{2, 3, 2});
  CHECK(b.at("caption").extents() == shape{2, 5});
  CHECK(b.at("number").extents() == shape{2});
  const auto all = [&]<class T>(const char* name, T) {
    const auto found = b.at(name).elements<T>();
    return std::vector<T>(found.begin(), found.end());
  };
  CHECK(all("pixels", 0.0F)
        == std::vector<float>{6.5, 6.5, 6.5, 6.5, 6.5, 6.5, 7.5, 7.5, 7.5, 7.5, 7.5, 7.5});
  CHECK(all("caption", std::int32_t())
        == std::vector<std::int32_t>{6, 7, 8, 9, 10, 7, 8, 9, 10, 11});
  CHECK(all("number", std::uint64_t()) == std::vector<std::uint64_t>{6000, 7000});
  CHECK(all("samples", std::uint64_t()) == std::vector<std::uint64_t>{6, 7});
  // Documents divide the rows of the captions.
  CHECK(all("documents", std::int32_t()) == std::vector<std::int32_t>{0, 3, 5, 9, 10});
  CHECK(all("document_samples", std::uint64_t()) == std::vector<std::uint64_t>{6, 6, 7, 7});
}

namespace {

/// A data set whose documents begin at these rows.
class cut_at final : public sample_dataset {
 public:
  explicit cut_at(std::vector<std::int64_t> rows) : rows_(std::move(rows)) {}

  std::uint64_t size() const override { return 1; }
  batch_schema schema() const override { return token_schema(4, true); }
  void fill(std::uint64_t, const sample_view& out) const override {
    for (const auto row : rows_)
      out.cut(row);
  }

 private:
  std::vector<std::int64_t> rows_;
};

}  // namespace

TEST_CASE("SCHEMA-2: documents begin in order, within their sample", "[data]") {
  using rows = std::vector<std::int64_t>;
  const auto batch = [](rows at) {
    return dataset_source(std::make_shared<cut_at>(std::move(at)), {}, {}).microbatch({});
  };
  CHECK(batch({1, 3}).at("documents").size() == 4);
  for (const auto& wrong : {rows{0}, rows{4}, rows{-1}, rows{2, 2}, rows{3, 1}})
    CHECK_BREAKS("SCHEMA-2", batch(wrong));
}

namespace {

/// Samples of 4 tokens and 3 keys, both with these documents.
class cut_twice final : public sample_dataset {
 public:
  cut_twice(std::vector<std::int64_t> tokens, std::vector<std::int64_t> keys)
      : tokens_(std::move(tokens)), keys_(std::move(keys)) {}

  std::uint64_t size() const override { return 2; }
  batch_schema schema() const override {
    auto out = token_schema(4, true);
    out.tensors.push_back({.name = "keys", .extents = {3}, .rows = 0});
    out.more_documents = {{"key_documents", "keys"}};
    return out;
  }
  void fill(std::uint64_t, const sample_view& out) const override {
    for (const auto row : tokens_)
      out.cut(row);
    for (const auto row : keys_)
      out.cut(row, "key_documents");
  }

 private:
  std::vector<std::int64_t> tokens_, keys_;
};

}  // namespace

TEST_CASE("SCHEMA-3: a sample has the same documents in all tensors that they divide", "[data]") {
  using rows = std::vector<std::int64_t>;
  const auto batch = [](rows tokens, rows keys) {
    return dataset_source(std::make_shared<cut_twice>(tokens, keys), {.micro_batch_size = 2}, {})
        .microbatch({});
  };
  const auto b = batch({1}, {3});  // the second document has no keys
  const auto all = [&](const char* name) {
    const auto found = b.at(name).elements<std::int32_t>();
    return std::vector<std::int32_t>(found.begin(), found.end());
  };
  CHECK(all("documents") == std::vector<std::int32_t>{0, 1, 4, 5, 8});
  CHECK(all("key_documents") == std::vector<std::int32_t>{0, 3, 3, 6, 6});
  CHECK(b.at("document_samples").size() == 4);
  CHECK_BREAKS("SCHEMA-3", batch({1}, {}));
  CHECK_BREAKS("SCHEMA-3", batch({1}, {1, 2}));
  CHECK_BREAKS("SCHEMA-2", batch({1}, {4}));
}

TEST_CASE("a data set fills each element of its samples", "[data]") {
  const scratch_folder folder;
  write_dataset(folder / "data", 97, {{5}, {3}, {7}, {2}, {9}, {4}});
  const gpt_dataset tokens(std::make_shared<indexed_dataset>(folder / "data"),
                           split_matrix("1"),
                           data_split::train,
                           {.sequence_length = 4, .samples = 12, .vocabulary = 97});
  const pictures captioned;
  for (const sample_dataset* const data : {static_cast<const sample_dataset*>(&tokens),
                                           static_cast<const sample_dataset*>(&captioned)})
    for (std::uint64_t i = 0; i < data->size(); ++i)
      CHECK(writes_all(*data, i));
  CHECK(!writes_all(cut_at({1}), 0));
}

namespace {

/// A data set that records the samples that it is told to expect.
class remembering final : public sample_dataset {
 public:
  std::uint64_t size() const override { return 40; }
  batch_schema schema() const override { return token_schema(1); }
  void fill(std::uint64_t, const sample_view&) const override {}
  void expect(std::uint64_t i) const override { expected.push_back(i); }

  mutable std::vector<std::uint64_t> expected;
};

}  // namespace

TEST_CASE("the next micro-batches of a replica are announced, also across steps", "[data]") {
  const auto data = std::make_shared<remembering>();
  const batch_layout layout{.micro_batch_size = 2, .data_parallel = 2};
  using samples = std::vector<std::uint64_t>;
  // Steps of 8 samples: micro-batch 1 of the step at 8 is followed by 0 and 1 of that at 16.
  dataset_source(data, layout, memory_pool(), sampling::single, 2)
      .microbatch({.consumed = 8, .microbatch = 1, .replica = 1});
  CHECK(data->expected == samples{14, 15, 18, 19, 22, 23});
  data->expected.clear();
  dataset_source(data, layout, memory_pool()).microbatch({.consumed = 8});
  CHECK(data->expected.empty());

  const dataset_source cyclic(data, layout, memory_pool(), sampling::cyclic, 2);
  for (const std::uint64_t consumed : {32, 36, 40}) {
    cyclic.microbatch({.consumed = consumed});
  }
  const auto found = data->expected;
  REQUIRE(found.size() == 18);
  // Each later read was announced one read before, also across the end of the epoch of 40.
  CHECK(samples(found.begin() + 2, found.begin() + 6)
        == samples(found.begin() + 6, found.begin() + 10));
  CHECK(samples(found.begin() + 8, found.begin() + 12)
        == samples(found.begin() + 12, found.begin() + 16));
}

TEST_CASE("all documents of a sample are expected, also in a blend", "[data]") {
  class remembering_tokens final : public token_source {
   public:
    std::int64_t sequences() const override { return 4; }
    std::int32_t length(std::int64_t) const override { return 3; }
    void get(std::int64_t sequence,
             std::int64_t offset,
             std::span<std::int32_t> out) const override {
      read.insert({sequence, offset, out.size()});
      std::ranges::fill(out, 1);
    }
    void expect(std::int64_t sequence, std::int64_t offset, std::size_t count) const override {
      expected.insert({sequence, offset, count});
    }
    std::string place(std::int64_t) const override { return "there"; }

    using part = std::tuple<std::int64_t, std::int64_t, std::size_t>;
    mutable std::set<part> read, expected;
  };
  const auto tokens = std::make_shared<remembering_tokens>(),
             others = std::make_shared<remembering_tokens>();
  const auto opened
      = [&](const std::filesystem::path& prefix, std::optional<std::uint64_t> samples) {
          return std::make_shared<gpt_dataset>(
              prefix == "a" ? tokens : others,
              split_matrix("1"),
              data_split::train,
              gpt_dataset_options{.sequence_length = 4, .samples = samples, .vocabulary = 97});
        };
  const blended_dataset blend({.prefixes = {"a", "b"}, .weights = {1, 1}}, 4, opened);
  for (std::uint64_t i = 0; i < blend.size(); ++i) {
    for (const auto& set : {tokens, others}) {
      set->read.clear();
      set->expected.clear();
    }
    row_of(blend, i);
    blend.expect(i);
    CHECK(tokens->expected == tokens->read);
    CHECK(others->expected == others->read);
    CHECK(tokens->read.empty() != others->read.empty());
  }
  blend.expect(blend.size());  // beyond the end
}
