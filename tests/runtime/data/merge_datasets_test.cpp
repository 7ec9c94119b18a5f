#include "runtime/data/merge_datasets.hpp"

#include "runtime/data/conversation_files.hpp"
#include "runtime/data/dataset_manifest.hpp"
#include "tests/runtime/data/golden.hpp"
#include "tests/support/disk_faults.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cerrno>
#include <iterator>

using namespace troupe::runtime;
using namespace troupe::tests;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

namespace {

/// Made by tests/golden/data/merge.py.
const json& golden_merge() {
  static const auto all = json::parse(read_text(source_dir() + "/tests/golden/data/merge.json"));
  return all;
}

std::string unhex(const std::string& digits) {
  std::string out;
  for (std::size_t i = 0; i < digits.size(); i += 2)
    out += char(std::stoi(digits.substr(i, 2), nullptr, 16));
  return out;
}

std::filesystem::path put_files(const std::filesystem::path& prefix, const json& from) {
  write_text(idx_path(prefix), unhex(from["idx"]));
  write_text(bin_path(prefix), unhex(from["bin"]));
  return prefix;
}

std::ptrdiff_t files_in(const std::filesystem::path& folder) {
  return std::distance(std::filesystem::directory_iterator(folder), {});
}

const dataset_manifest ours = {.tokenizer = "GPT2BPETokenizer", .fingerprint = "ab"};
const dataset_manifest others = {.tokenizer = "GPT2BPETokenizer", .fingerprint = "cd"};
const dataset_manifest numbers = {.tokenizer = "NullTokenizer", .fingerprint = "ef"};

}  // namespace

TEST_CASE("every type of token that megatron-core writes is read, or refused by name",
          "[data][golden]") {
  for (const auto& c : golden_merge()["types"]) {
    const scratch_folder folder;
    const std::string type = c["type"];
    INFO(type);
    const auto prefix = put_files(folder / "x", c);
    if (type.starts_with("float")) {
      CHECK_THROWS_WITH(indexed_dataset(prefix), ContainsSubstring("floating point"));
      continue;
    }
    const indexed_dataset data(prefix);
    CHECK(to_string(data.type()) == type);
    CHECK(data.documents() == 3);
    auto found = json::array();
    for (std::int64_t i = 0; i < data.sequences(); ++i) {
      std::vector<std::int32_t> ids(std::size_t(data.length(i)));
      data.get(i, 0, ids);
      found.push_back(ids);
    }
    CHECK(found == c["sequences"]);
  }
  const scratch_folder folder;
  put_files(folder / "x", golden_merge()["modes"]);
  CHECK_THROWS_WITH(indexed_dataset(folder / "x"), ContainsSubstring("sequence modes"));
  CHECK_THROWS_WITH(merge_datasets({.inputs = {folder / "x"}, .output_prefix = folder / "all"}),
                    ContainsSubstring("sequence modes"));
}

TEST_CASE("merged data sets have the bytes that megatron-core merges", "[data][golden]") {
  for (const auto& c : golden_merge()["merged"]) {
    const scratch_folder folder;
    std::filesystem::create_directory(folder / "in");
    std::vector<std::filesystem::path> inputs;
    for (const auto& one : c["inputs"])
      inputs.push_back(put_files(folder / "in" / fmt::format("part{}", inputs.size()), one));
    // By name, and as the folder that they lie in.
    for (const auto& given : {inputs, {folder / "in"}}) {
      const auto made = merge_datasets({.inputs = given, .output_prefix = folder / "out" / "all"});
      CHECK(made.datasets == std::int64_t(inputs.size()));
      CHECK_FALSE(made.remembers_tokenizer);
      CHECK(hex(read_text(folder / "out/all.idx")) == c["merged"]["idx"]);
      CHECK(hex(read_text(folder / "out/all.bin")) == c["merged"]["bin"]);
      CHECK(files_in(folder / "out") == 2);
    }
  }
}

TEST_CASE("a merge of more than is read at once keeps every token in its place", "[data]") {
  const scratch_folder folder;
  write_dataset(folder / "a", 70'000, std::vector(70'000, std::vector<std::int32_t>{4, 1}));
  write_dataset(folder / "b", 70'000, {{7}});
  merge_datasets(
      {.inputs = {folder / "b", folder / "a", folder / "b"}, .output_prefix = folder / "all"});
  CHECK(read_text(folder / "all.bin")
        == read_text(folder / "b.bin") + read_text(folder / "a.bin") + read_text(folder / "b.bin"));
  const indexed_dataset all(folder / "all");
  CHECK(all.documents() == 70'002);
  CHECK(all.sequences() == 140'002);
  CHECK(all.document_begin(70'001) == 140'001);
  CHECK(all.length(140'001) == 7);
}

TEST_CASE("a merge remembers the tokenizer that all its data sets have", "[data]") {
  const scratch_folder folder;
  const auto merged = [&](const std::vector<std::optional<dataset_manifest>>& of) {
    std::vector<std::filesystem::path> inputs;
    for (const auto& one : of) {
      inputs.push_back(folder / std::to_string(inputs.size()));
      write_dataset(inputs.back(), 300, {{2}});
      write_manifest(inputs.back(), one);
    }
    merge_datasets({.inputs = inputs, .output_prefix = folder / "all"});
    return read_manifest(folder / "all");
  };
  CHECK(merged({ours, ours}) == ours);
  CHECK_FALSE(merged({ours, std::nullopt}));
  CHECK_FALSE(merged({std::nullopt, ours, ours}));
  CHECK_FALSE(merged({numbers, ours}));
  CHECK_THROWS_WITH(merged({ours, others}), ContainsSubstring("different tokenizers"));
  CHECK_THROWS_WITH(merged({numbers, ours, std::nullopt, others}),
                    ContainsSubstring("/1' and") && ContainsSubstring("/3.manifest.json"));
}

TEST_CASE("data sets that cannot be merged are named, and nothing is written", "[data]") {
  const scratch_folder folder;
  write_dataset(folder / "a", 300, {{2}, {3}});
  write_dataset(folder / "wide", 70'000, {{2}});
  std::filesystem::create_directory(folder / "empty");
  const auto refusal = [&](const std::vector<std::filesystem::path>& inputs, const char* to) {
    std::string said;
    try {
      merge_datasets({.inputs = inputs, .output_prefix = folder / to});
    } catch (const input_error& e) {
      said = e.what();
    }
    CHECK_FALSE(std::filesystem::exists(folder / "out"));
    return said;
  };
  CHECK_THAT(refusal({}, "out/x"), ContainsSubstring("no input"));
  CHECK_THAT(refusal({folder / "a"}, "out/"), ContainsSubstring("end in a name"));
  CHECK_THAT(refusal({folder / "empty"}, "out/x"), ContainsSubstring("no data set in the folder"));
  CHECK_THAT(refusal({folder / "a", folder / "gone"}, "out/x"), ContainsSubstring("gone.idx"));
  CHECK_THAT(refusal({folder / "a", folder / "wide"}, "out/x"),
             ContainsSubstring("uint16") && ContainsSubstring("int32"));
  CHECK_THAT(refusal({folder / "wide", folder / "a"}, "a"), ContainsSubstring("it is the input"));
  CHECK_THAT(refusal({folder / "a"}, "out/../a"), ContainsSubstring("it is the input"));
  std::filesystem::create_symlink(folder / "a.bin", folder / "linked.bin");
  CHECK_THAT(refusal({folder / "a"}, "linked"), ContainsSubstring("it is the input"));
  CHECK_THAT(refusal({folder / "linked"}, "out/x"), ContainsSubstring("linked.idx"));

  write_dataset(answers_prefix(folder / "a"), 300, {{2}, {2}});
  CHECK_THAT(refusal({folder / ""}, "out/x"), ContainsSubstring("the answers of 'a'"));
  std::filesystem::resize_file(folder / "a.idx", 40);
  CHECK_THAT(refusal({folder / "wide", folder / "a"}, "out/x"),
             ContainsSubstring("a.idx': its 40 bytes are too few"));
  CHECK(indexed_dataset(folder / "wide").documents() == 1);
}

TEST_CASE("a merge that fails or is stopped leaves the old data set alone", "[data]") {
  const scratch_folder folder;
  std::filesystem::create_directory(folder / "out");
  write_dataset(folder / "a", 300, {{2}, {3}});
  write_dataset(folder / "out/all", 300, {{9}});
  const merge_options options
      = {.inputs = {folder / "a", folder / "a"}, .output_prefix = folder / "out/all"};
  {
    const planted_disk_fault full(
        {.below = (folder / "out/all").string(), .nth = 1, .error = ENOSPC, .calls = "write"});
    CHECK_THROWS_AS(merge_datasets(options), io_error);
  }
  auto stopped = options;
  stopped.stop = cancel_token();
  stopped.stop.cancel();
  CHECK_THROWS_AS(merge_datasets(stopped), cancelled);
  CHECK(indexed_dataset(folder / "out/all").tokens() == 9);
  CHECK(files_in(folder / "out") == 2);
  write_text(folder / "out/all.bin.partial", "of one that was killed, and longer than the new one");
  merge_datasets(options);
  CHECK(indexed_dataset(folder / "out/all").tokens() == 10);
  CHECK(files_in(folder / "out") == 2);
}
