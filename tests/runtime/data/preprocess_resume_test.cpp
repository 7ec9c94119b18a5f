#include "runtime/data/dataset_parts.hpp"
#include "runtime/data/indexed_dataset.hpp"
#include "runtime/data/preprocess.hpp"
#include "runtime/data/record_reader.hpp"
#include "runtime/file/file.hpp"
#include "runtime/file/file_lock.hpp"
#include "tests/runtime/data/compressed.hpp"
#include "tests/support/byte_tokenizer.hpp"
#include "tests/support/disk_faults.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <map>
#include <new>
#include <nlohmann/json.hpp>
#include <set>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

using namespace troupe::runtime;
using namespace troupe::tests;
using Catch::Matchers::ContainsSubstring;

namespace {

/// Several batches; the second file is compressed in two members.
void write_inputs(const scratch_folder& folder) {
  std::string lines;
  for (int i = 0; i < 6'000; ++i)
    lines += fmt::format("{{\"text\": \"document {} {}\", \"b\": \"{}\"}}\n",
                         i,
                         std::string(std::size_t(i % 41), 'x'),
                         i % 7 == 0 ? "" : "y");
  write_text(folder / "a.jsonl", lines);
  write_text(folder / "b.jsonl.gz", gzip(lines) + gzip(lines));
}

preprocess_options options_in(const scratch_folder& folder, const char* out) {
  return {.inputs = {folder / "a.jsonl", folder / "b.jsonl.gz"},
          .output_prefix = folder / out / "c",
          .json_keys = {"text", "b"},
          .append_eod = true,
          .workers = 2,
          .journal_interval = 150'000};
}

std::set<std::string> names_in(const std::filesystem::path& folder) {
  std::set<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    out.insert(entry.path().filename().string());
  return out;
}

std::string output_of(const scratch_folder& folder, const char* out) {
  std::string all;
  for (const auto* name : {"c_text_document", "c_b_document"})
    all += read_text(bin_path(folder / out / name)) + read_text(idx_path(folder / out / name));
  return all;
}

const std::set<std::string> finished = {"c_text_document.manifest.json",
                                        "c_b_document.manifest.json",
                                        "c_text_document.bin",
                                        "c_text_document.idx",
                                        "c_b_document.bin",
                                        "c_b_document.idx"};

/// Runs in a child process that is killed at a call; true if it was killed.
bool killed(const preprocess_options& options, const disk_fault& at) {
  const auto child = ::fork();
  if (child == 0) {
    plant(at);
    try {
      preprocess(byte_tokenizer(), options);
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

}  // namespace

TEST_CASE("RESUME-A: a killed preprocess resumes to the bytes of an uninterrupted one",
          "[data][unsanitized]") {
  const scratch_folder folder;
  write_inputs(folder);
  std::filesystem::create_directory(folder / "whole");
  preprocess(byte_tokenizer(), options_in(folder, "whole"));
  CHECK(names_in(folder / "whole") == finished);
  const auto expected = output_of(folder, "whole");

  const auto options = options_in(folder, "out");
  bool went_on = false;
  std::uint64_t n = 1;
  for (;; n += 3) {
    std::filesystem::remove_all(folder / "out");
    std::filesystem::create_directory(folder / "out");
    if (!killed(options, {.below = (folder / "out").string(), .nth = n}))
      break;
    killed(options, {.below = (folder / "out").string(), .nth = n});  // a second kill
    const auto made = preprocess(byte_tokenizer(), options);
    went_on = went_on || made[0].resumed_bytes > 0;
    CHECK(made[0].documents == 18'000);
    CHECK(made[1].empty_documents == 2'574);
    CHECK(output_of(folder, "out") == expected);
    CHECK(names_in(folder / "out") == finished);
  }
  CHECK(n > 60);  // number of different kill points
  CHECK(went_on);
}

TEST_CASE("files of a killed preprocess are not resumed by a different one", "[data]") {
  const scratch_folder folder;
  write_inputs(folder);
  std::filesystem::create_directory(folder / "out");
  auto options = options_in(folder, "out");
  REQUIRE(killed(options, {.below = (folder / "out").string(), .nth = 60}));
  REQUIRE(names_in(folder / "out").contains("c.journal"));

  auto other = options;
  other.append_eod = false;
  CHECK_THROWS_WITH(preprocess(byte_tokenizer(), other),
                    ContainsSubstring("another append_eod")
                        && ContainsSubstring("remove the file to start again")
                        && ContainsSubstring("c.journal"));
  write_text(folder / "a.jsonl",
             read_text(folder / "a.jsonl") + "{\"text\": \"z\", \"b\": \"\"}\n");
  CHECK_THROWS_WITH(preprocess(byte_tokenizer(), options), ContainsSubstring("another inputs"));
  CHECK(names_in(folder / "out").contains("c.journal"));

  options.resume = false;
  CHECK(preprocess(byte_tokenizer(), options)[0].documents == 18'001);
  CHECK(names_in(folder / "out") == finished);
}

TEST_CASE("a damaged journal or part is named", "[data]") {
  const scratch_folder folder;
  write_inputs(folder);
  std::filesystem::create_directory(folder / "out");
  const auto options = options_in(folder, "out");
  REQUIRE(killed(options, {.below = (folder / "out").string(), .nth = 60}));
  const auto good = nlohmann::json::parse(read_text(folder / "out/c.journal"));
  for (const auto& [where, value] :
       std::map<std::string, nlohmann::json>{{"input", 7},
                                             {"byte", -1},
                                             {"by_key/0/tokens", std::uint64_t{1} << 63},
                                             {"by_key/1/bytes", "many"},
                                             {"by_key", nlohmann::json::array()}}) {
    auto bad = good;
    bad[nlohmann::json::json_pointer("/progress/" + where)] = value;
    write_text(folder / "out/c.journal", bad.dump());
    CHECK_THROWS_WITH(preprocess(byte_tokenizer(), options), ContainsSubstring("damaged"));
  }
  write_text(folder / "out/c.journal", good.dump());
  std::filesystem::resize_file(folder / "out/c_b_document.lengths.partial", 0);
  CHECK_THROWS_WITH(preprocess(byte_tokenizer(), options),
                    ContainsSubstring("c_b_document.lengths.partial' ")
                        || ContainsSubstring("lengths.partial': it has 0 bytes"));
  write_text(folder / "out/c.journal", "{");
  CHECK_THROWS_WITH(preprocess(byte_tokenizer(), options), ContainsSubstring("damaged"));
}

TEST_CASE("after a full disk the journaled files are kept, and the next run resumes", "[data]") {
  const scratch_folder folder;
  write_inputs(folder);
  std::filesystem::create_directory(folder / "out");
  const auto options = options_in(folder, "out");
  {
    const planted_disk_fault full(
        {.below = (folder / "out").string(), .nth = 9, .error = ENOSPC, .calls = "write"});
    CHECK_THROWS_WITH(preprocess(byte_tokenizer(), options), ContainsSubstring("free some space"));
  }
  CHECK(preprocess(byte_tokenizer(), options)[0].documents == 18'000);
  CHECK(names_in(folder / "out") == finished);
}

TEST_CASE("PREPROCESS-A: text in memory is bounded, for any documents", "[data][unsanitized]") {
  const scratch_folder folder;
  std::string lines;
  for (int i = 0; i < 40; ++i)
    lines
        += "{\"text\": \"" + std::string(std::size_t(i == 20 ? 6'000'000 : 600'000), 'x') + "\"}\n";
  write_text(folder / "large.jsonl", lines);
  const auto most = [&](const char* name, unsigned workers) {
    return preprocess(
               byte_tokenizer(),
               {.inputs = {folder / name}, .output_prefix = folder / "c", .workers = workers})
        .front()
        .most_text_in_memory;
  };
  for (const unsigned workers : {1U, 3U})
    CHECK(most("large.jsonl", workers) <= preprocess_memory(workers, 6'000'100));
  std::string small;
  for (int i = 0; i < 600'000; ++i)
    small += "{\"text\": \"a document of words\"}\n";
  write_text(folder / "small.jsonl", small);
  CHECK(small.size() > 2 * preprocess_memory(2, 100));
  CHECK(most("small.jsonl", 2) <= preprocess_memory(2, 100));
  CHECK_THROWS_WITH(preprocess(byte_tokenizer(),
                               {.inputs = {folder / "large.jsonl"},
                                .output_prefix = folder / "c",
                                .largest_document = 1'000'000}),
                    ContainsSubstring("large.jsonl', line 21") && ContainsSubstring("split it"));
}

TEST_CASE("runs with other keys of the same output do not share a journal", "[data]") {
  const scratch_folder folder;
  write_inputs(folder);
  std::filesystem::create_directory(folder / "out");
  const auto options = options_in(folder, "out");
  auto other = options;
  other.json_keys = {"b"};
  {
    const file_lock first(options.output_prefix.string() + ".journal", "write");
    CHECK_THROWS_WITH(preprocess(byte_tokenizer(), other), ContainsSubstring("is writing there"));
  }
  REQUIRE(killed(options, {.below = (folder / "out").string(), .nth = 60}));
  other.resume = false;
  CHECK(preprocess(byte_tokenizer(), other)[0].documents == 18'000);
  // Parts of the other run's keys are removed, too.
  CHECK(names_in(folder / "out")
        == std::set<std::string>{
            "c_b_document.manifest.json", "c_b_document.bin", "c_b_document.idx"});
}

TEST_CASE("a foreign journal does not cause the removal of files", "[data]") {
  const scratch_folder folder;
  write_inputs(folder);
  std::filesystem::create_directory(folder / "out");
  write_text(folder / "mine.bin.partial", "kept");
  std::filesystem::create_directory(folder / "out/c_");
  write_text(
      folder / "out/c.journal",
      R"({"format": 1, "identity": {"json_keys": ["/../../mine", 7], "split_sentences": false}})");
  auto options = options_in(folder, "out");
  options.resume = false;
  CHECK(preprocess(byte_tokenizer(), options)[0].documents == 18'000);
  CHECK(read_text(folder / "mine.bin.partial") == "kept");
}

TEST_CASE("a run that the system killed for lack of memory can be resumed", "[data]") {
  const scratch_folder folder;
  write_inputs(folder);
  write_text(folder / "a.jsonl",
             read_text(folder / "a.jsonl") + "{\"text\": \"no memory\", \"b\": \"\"}\n");
  std::filesystem::create_directory(folder / "out");
  const auto options = options_in(folder, "out");
  CHECK_THROWS_AS(preprocess(byte_tokenizer(), options), std::bad_alloc);
  CHECK(names_in(folder / "out").contains("c.journal"));
  CHECK_THROWS_AS(preprocess(byte_tokenizer(), options), std::bad_alloc);
  CHECK(names_in(folder / "out").contains("c_text_document.bin.partial"));
}

TEST_CASE("an input that changes while it is read is refused", "[data]") {
  const scratch_folder folder;
  const auto path = folder / "a.txt";
  std::string lines;  // more than is read before the first is tokenized
  for (int i = 0; i < 5'000; ++i)
    lines += std::string(1'000, 'x') + "\n";
  write_text(path, lines);
  byte_tokenizer with;
  bool written = false;
  with.before_each = [&] {
    if (!std::exchange(written, true))
      write_text(path, lines + "y\n");
  };
  CHECK_THROWS_WITH(preprocess(with,
                               {.inputs = {path},
                                .output_prefix = folder / "out/c",
                                .format = text_format::lines,
                                .workers = 1}),
                    ContainsSubstring("a.txt'") && ContainsSubstring("while it was read"));
  CHECK(std::filesystem::is_empty(folder / "out"));
}

TEST_CASE("removed parts are not confused with an older data set", "[data][unthreaded]") {
  const scratch_folder folder;
  write_inputs(folder);
  std::filesystem::create_directory(folder / "out");
  auto options = options_in(folder, "out");
  options.journal_interval = std::uint64_t{1} << 40;  // fewer calls with a kill
  auto older = options;
  older.inputs = {folder / "a.jsonl"};
  preprocess(byte_tokenizer(), older);
  // Killed after all was read, before the first file is published.
  std::uint64_t nth = 10;
  for (;; ++nth) {
    REQUIRE(killed(options, {.below = (folder / "out").string(), .nth = nth}));
    const auto journal = folder / "out/c.journal";
    if (std::filesystem::exists(journal)
        && nlohmann::json::parse(read_text(journal))["progress"]["read"] == true)
      break;
    std::filesystem::remove(journal);
  }
  for (const auto& name : names_in(folder / "out"))
    if (name.ends_with(".partial"))
      std::filesystem::remove(folder / "out" / name);
  CHECK_THROWS_WITH(preprocess(byte_tokenizer(), options), ContainsSubstring("its parts are gone"));
  CHECK(preprocess(byte_tokenizer(), options)[0].documents == 18'000);
}

TEST_CASE("a data set with too many sequences for readers is refused", "[data]") {
  const scratch_folder folder;
  const auto prefix = folder / "many";
  write_text(folder / "many.lengths.partial", "");
  std::filesystem::resize_file(
      folder / "many.lengths.partial",
      4 * std::uint64_t(most_sequences - 1));  // a sparse file without disk space
  dataset_parts parts(prefix, token_type::u16, {.sequences = most_sequences - 1});
  const std::int32_t lengths[] = {1, 1};
  parts.add_lengths(std::span(lengths).first(1));
  CHECK_THROWS_WITH(parts.add_lengths(std::span(lengths).first(1)),
                    ContainsSubstring("2147483647") && ContainsSubstring("blend"));
}

TEST_CASE("a preprocess can be stopped during blank text and during a skip", "[data]") {
  const scratch_folder folder;
  write_text(folder / "blank.txt.gz", gzip(std::string(5 << 20, '\n')));
  const cancel_token stop;
  record_reader blank(folder / "blank.txt.gz", text_format::lines, {}, stop);
  stop.cancel();
  text_record none;
  CHECK_THROWS_AS(blank.next(none), cancelled);
  CHECK_THROWS_AS(
      record_reader(folder / "blank.txt.gz", text_format::lines, {.byte = 4 << 20}, stop),
      cancelled);
}

TEST_CASE("an input that is also the output, and objects, are refused", "[data]") {
  const scratch_folder folder;
  write_text(folder / "c_text_document.bin", "1 2 3\n");
  CHECK_THROWS_WITH(
      preprocess(byte_tokenizer(),
                 {.inputs = {folder / "c_text_document.bin"}, .output_prefix = folder / "." / "c"}),
      ContainsSubstring("the output"));
  CHECK(read_text(folder / "c_text_document.bin") == "1 2 3\n");
  CHECK_THROWS_WITH(
      preprocess(byte_tokenizer(),
                 {.inputs = {folder / "c_text_document.bin"}, .output_prefix = "s3://lake/c"}),
      ContainsSubstring("objects are only read"));
  CHECK_THROWS_WITH(
      preprocess(byte_tokenizer(), {.inputs = {"s3://lake/a.txt"}, .output_prefix = folder / "c"}),
      ContainsSubstring("only local files"));
  CHECK_FALSE(std::filesystem::exists("s3:"));
}
