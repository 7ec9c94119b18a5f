#include "runtime/data/merge_datasets.hpp"

#include "runtime/data/conversation_files.hpp"
#include "runtime/data/dataset_manifest.hpp"
#include "tests/runtime/data/golden.hpp"
#include "tests/support/disk_faults.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <sys/wait.h>
#include <unistd.h>

using namespace troupe::runtime;
using namespace troupe::tests;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

namespace {

/// Reference output of tests/golden/data/merge.py.
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

/// Merges in a child process that is killed at a call that modifies the folder; true if it was
/// killed.
bool killed_merge(const merge_options& options, const disk_fault& at) {
  const auto child = ::fork();
  if (child == 0) {
    plant(at);
    try {
      merge_datasets(options);
    } catch (...) {
      ::_exit(1);
    }
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  REQUIRE((WIFSIGNALED(status) || WEXITSTATUS(status) == 0));
  return WIFSIGNALED(status);
}

/// Peak memory of this process, from the kernel.
std::int64_t peak_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:"))
      return std::stoll(line.substr(6)) << 10;
  return -1;
}

/// Bytes by which a merge raises the peak memory of a child process.
std::int64_t memory_of(const merge_options& options) {
  int ends[2] = {};
  REQUIRE(::pipe(ends) == 0);
  const auto child = ::fork();
  if (child == 0) {
    std::int64_t grown = -1;
    try {
      const auto before = peak_memory();  // a new process starts without its parent's peak
      merge_datasets(options);
      grown = before < 0 ? -1 : peak_memory() - before;
    } catch (...) {
    }
    ::_exit(::write(ends[1], &grown, sizeof grown) == sizeof grown ? 0 : 1);
  }
  std::int64_t grown = -1;
  CHECK(::read(ends[0], &grown, sizeof grown) == sizeof grown);
  ::close(ends[0]);
  ::close(ends[1]);
  ::waitpid(child, nullptr, 0);
  REQUIRE(grown >= 0);
  return grown;
}

const dataset_manifest ours = {.tokenizer = "GPT2BPETokenizer", .fingerprint = "ab"};
const dataset_manifest others = {.tokenizer = "GPT2BPETokenizer", .fingerprint = "cd"};
const dataset_manifest numbers = {.tokenizer = "NullTokenizer", .fingerprint = "ef"};

}  // namespace

TEST_CASE("every token type of megatron-core is read, or refused by name", "[data][golden]") {
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

TEST_CASE("merged data sets have the bytes of megatron-core's merge", "[data][golden]") {
  for (const auto& c : golden_merge()["merged"]) {
    const scratch_folder folder;
    std::filesystem::create_directory(folder / "in");
    std::vector<std::filesystem::path> inputs;
    for (const auto& one : c["inputs"])
      inputs.push_back(put_files(folder / "in" / fmt::format("part{}", inputs.size()), one));
    // Names the inputs, then their folder.
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

TEST_CASE("a merge larger than its buffers keeps every token in its place", "[data]") {
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

TEST_CASE("a merge records the tokenizer that all its data sets have", "[data]") {
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

TEST_CASE("incompatible data sets are named, and nothing is written", "[data]") {
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

TEST_CASE("a killed merge is invisible, and the next one gives the bytes of an uninterrupted one",
          "[data][unthreaded]") {
  const scratch_folder folder;
  write_dataset(folder / "a", 70'000, std::vector(90'000, std::vector<std::int32_t>{4, 1}));
  write_manifest(folder / "a", ours);
  const auto options = [&](const char* to) {
    return merge_options{.inputs = {folder / "a", folder / "a"},
                         .output_prefix = folder / to / "all"};
  };
  const auto bytes_in = [&](const char* to) {
    return read_text(bin_path(folder / to / "all")) + read_text(idx_path(folder / to / "all"))
           + read_text(manifest_path(folder / to / "all"));
  };
  for (const auto* to : {"whole", "older", "out"})
    std::filesystem::create_directory(folder / to);
  merge_datasets(options("whole"));
  const auto expected = bytes_in("whole");
  write_dataset(folder / "older/all", 300, {{9}});
  write_manifest(folder / "older/all", others);
  const auto older = bytes_in("older");

  std::uint64_t n = 1, unseen = 0, half_done = 0;
  for (;; ++n) {
    std::filesystem::remove_all(folder / "out");
    std::filesystem::copy(folder / "older", folder / "out");
    if (!killed_merge(options("out"), {.below = (folder / "out/all").string(), .nth = n}))
      break;
    // A data set without an index is invisible.
    if (std::filesystem::exists(folder / "out/all.idx")) {
      const auto seen = bytes_in("out");
      CHECK((seen == older || seen == expected));
      unseen += seen == older ? 1 : 0;
    }
    half_done += std::filesystem::exists(folder / "out/all.bin.partial") ? 1 : 0;
    merge_datasets(options("out"));
    CHECK(bytes_in("out") == expected);
    CHECK(files_in(folder / "out") == 3);
  }
  CHECK(n > 15);  // number of different kill points
  CHECK(unseen > 5);
  CHECK(half_done > 5);
}

// A sanitizer delays the release of memory, and the thread sanitizer shadows every byte written.
TEST_CASE("the memory of a merge does not depend on the amount of data", "[data][unsanitized]") {
  const scratch_folder folder;
  constexpr std::int64_t mb = 1 << 20;
  const auto tokens = [&](const char* name, std::int64_t bytes) {
    write_dataset(folder / name, 70'000, {{1}});
    // One sequence of zeros with the given length.
    const auto length = std::int32_t(bytes / 4);
    std::filesystem::resize_file(bin_path(folder / name), std::uintmax_t(bytes));
    std::fstream index(idx_path(folder / name), std::ios::in | std::ios::out | std::ios::binary);
    index.seekp(34);
    index.write(reinterpret_cast<const char*>(&length), sizeof length);
  };
  tokens("small", 4 * mb);
  tokens("large", 256 * mb);
  const auto grown = [&](const std::vector<std::filesystem::path>& inputs) {
    return memory_of({.inputs = inputs, .output_prefix = folder / "all"});
  };
  // Four buffers of a megabyte, some of which briefly double while they grow.
  constexpr auto most = 32 * mb;
  CHECK(grown({folder / "small"}) < most);
  CHECK(grown({folder / "large", folder / "large"}) < most);
  // One index is mapped at a time, and no array has an element per sequence.
  constexpr std::int64_t sequences = 5'000'000;
  write_dataset(folder / "many", 70'000, {std::vector<std::int32_t>(sequences, 0)});
  const auto index = std::int64_t(std::filesystem::file_size(idx_path(folder / "many")));
  CHECK(index > most);
  CHECK(grown(std::vector<std::filesystem::path>(4, folder / "many")) < index + most);
}

TEST_CASE("objects cannot be merged, and the output cannot be an object", "[data]") {
  const scratch_folder folder;
  write_dataset(folder / "a", 300, {{2}});
  CHECK_THROWS_WITH(merge_datasets({.inputs = {"s3://lake/a"}, .output_prefix = folder / "b"}),
                    ContainsSubstring("s3://lake/a") && ContainsSubstring("copy it"));
  CHECK_THROWS_WITH(merge_datasets({.inputs = {folder / "a"}, .output_prefix = "s3://lake/b"}),
                    ContainsSubstring("objects are only read"));
  CHECK_FALSE(std::filesystem::exists("s3:"));
}
