#include "runtime/tokenizer/description.hpp"

#include "runtime/core/error.hpp"
#include "runtime/file/file.hpp"
#include "runtime/tokenizer/bpe_tokenizer.hpp"
#include "runtime/tokenizer/bpe_trainer.hpp"
#include "runtime/tokenizer/chat_template.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <chrono>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;
using troupe::tests::scratch_folder;

namespace {

tokenizer_choice saved(const std::filesystem::path& folder, const char* text) {
  bpe_trainer trainer;
  trainer.add(text);
  bpe_tokenizer(trainer.train({.vocabulary_size = 260})).save(folder);
  return {.type = bpe_tokenizer::type_name,
          .vocab_file = folder / "vocab.json",
          .merge_file = folder / "merges.txt"};
}

}  // namespace

TEST_CASE("a tokenizer is found again after its files were moved away", "[tokenizer]") {
  const scratch_folder folder;
  const auto choice = saved(folder / "first", "aab aab abab");
  const auto original = make_tokenizer(choice);
  const auto description = describe(choice, *original);
  keep_tokenizer(description, folder / "run");
  const auto part = folder / "run/tokenizer/merges.txt.partial-7";  // of a killed process
  write_text(part, "half");
  std::filesystem::last_write_time(
      part, std::filesystem::file_time_type::clock::now() - surely_dead - std::chrono::hours(1));
  keep_tokenizer(description, folder / "run");  // again, as at a resume
  CHECK_FALSE(exists(part));
  std::filesystem::remove_all(folder / "first");
  const auto found = described_tokenizer(description, folder / "run");
  CHECK(found->fingerprint() == original->fingerprint());
  CHECK(found->encode("aab abab") == original->encode("aab abab"));
}

TEST_CASE("the files of a tokenizer can have a path that is not UTF-8", "[tokenizer]") {
  const scratch_folder folder;
  const auto choice = saved(folder / "first \xff", "aab aab abab");
  const auto original = make_tokenizer(choice);
  const auto description = describe(choice, *original);
  CHECK(named_tokenizer(description)->fingerprint() == original->fingerprint());
  keep_tokenizer(description, folder / "run \xff");
  std::filesystem::remove_all(folder / "first \xff");
  CHECK(described_tokenizer(description, folder / "run \xff")->fingerprint()
        == original->fingerprint());
}

TEST_CASE("another tokenizer is not confused with it and does not overwrite it", "[tokenizer]") {
  const scratch_folder folder;
  const auto first = saved(folder / "first", "aab aab abab");
  const auto second = saved(folder / "second", "xyz xyz xyxy");
  const auto a = make_tokenizer(first), b = make_tokenizer(second);
  keep_tokenizer(describe(first, *a), folder / "run");
  CHECK_THROWS_WITH(keep_tokenizer(describe(second, *b), folder / "run"),
                    ContainsSubstring("another tokenizer"));
  CHECK_THROWS_WITH(keep_tokenizer(describe(second, *b), folder / "run", [] { return false; }),
                    ContainsSubstring("another tokenizer"));
  CHECK_THROWS_WITH(described_tokenizer(describe(second, *b), folder / "run"),
                    ContainsSubstring("fingerprint"));
}

TEST_CASE("a damaged copy is written again if checkpoints know the tokenizer", "[tokenizer]") {
  const scratch_folder folder;
  const auto choice = saved(folder / "first", "aab aab abab");
  const auto original = make_tokenizer(choice);
  const auto description = describe(choice, *original);
  keep_tokenizer(description, folder / "run");
  write_text(folder / "run/tokenizer/merges.txt", "");
  CHECK_THROWS_WITH(keep_tokenizer(description, folder / "run"), ContainsSubstring("is damaged"));
  keep_tokenizer(description, folder / "run", [] { return true; });
  std::filesystem::remove_all(folder / "first");
  CHECK(described_tokenizer(description, folder / "run")->fingerprint() == original->fingerprint());
}

TEST_CASE("descriptions of one tokenizer are equal wherever its files are", "[tokenizer]") {
  const scratch_folder folder;
  const auto described = [&](const char* name, const char* text) {
    const auto choice = saved(folder / name, text);
    return describe(choice, *make_tokenizer(choice));
  };
  const auto one = described("one", "aab aab abab");
  CHECK(describe_the_same(one, described("same", "aab aab abab")));
  CHECK_FALSE(describe_the_same(one, described("other", "xyz xyz xyxy")));
}

TEST_CASE("chat templates are stored with the tokenizer, and stored ones stay", "[tokenizer]") {
  const scratch_folder folder;
  const auto choice = saved(folder / "first", "aab aab abab");
  write_text(folder / "first/chat_template.jinja", "first");
  write_text(folder / "first/tokenizer_config.json", R"({"eos_token": "</s>"})");
  make_folder(folder / "first/additional_chat_templates");
  write_text(folder / "first/additional_chat_templates/rag.jinja", "rag");
  write_text(folder / "first/additional_chat_templates/notes.txt", "none");
  const auto description = describe(choice, *make_tokenizer(choice));
  keep_tokenizer(description, folder / "run");
  write_text(folder / "first/chat_template.jinja", "second");
  keep_tokenizer(description, folder / "run");
  const auto kept = chat_templates_in(kept_tokenizer_folder(folder / "run"));
  CHECK(kept.by_name.at("default").text == "first");
  CHECK(kept.by_name.at("rag").text == "rag");
  CHECK(kept.by_name.size() == 2);
  CHECK(kept.special_tokens["eos_token"] == "</s>");
}

TEST_CASE("a NullTokenizer needs no files, and invalid descriptions are refused", "[tokenizer]") {
  const scratch_folder folder;
  const tokenizer_choice choice{.type = "NullTokenizer", .vocabulary_size = 50};
  const auto description = describe(choice, *make_tokenizer(choice));
  keep_tokenizer(description, folder / "run");
  CHECK(described_tokenizer(description, folder.path())->vocabulary_size() == 50);
  CHECK_THROWS_AS(described_tokenizer("[]", folder.path()), input_error);
  CHECK_THROWS_AS(described_tokenizer("{", folder.path()), input_error);
}
