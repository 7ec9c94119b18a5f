// A job's data, and the tokenizer that they were made with.

#include "runtime/job/job_data.hpp"

#include "runtime/data/indexed_dataset_builder.hpp"
#include "runtime/job/job.hpp"
#include "tests/support/hub_tokenizer.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;
using troupe::tests::scratch_folder;
using json = nlohmann::json;

namespace {

/// A tokenizer with letters and added tokens: two document ends, and the FIM tokens.
json file_with_two_ends() {
  json vocab;
  for (int i = 0; i < 26; ++i)
    vocab[std::string(1, char('a' + i))] = i;
  json file = {{"model", {{"type", "WordLevel"}, {"vocab", vocab}, {"unk_token", "a"}}},
               {"added_tokens", json::array()}};
  for (const auto* token :
       {"<|endoftext|>", "<|im_end|>", "<fim-prefix>", "<fim-middle>", "<fim-suffix>", "<fim-pad>"})
    file["added_tokens"].push_back(
        {{"id", 26 + file["added_tokens"].size()}, {"content", token}, {"special", true}});
  return file;
}

training_job job_of(const scratch_folder& folder, const std::string& end) {
  troupe::tests::write_hub_tokenizer(folder.path(), file_with_two_ends(), end);
  const auto choice = tokenizer_in(folder.path());
  const auto with = make_tokenizer(choice);
  indexed_dataset_builder out(folder / "d", with->vocabulary_size());
  const std::vector<std::int32_t> ids = {1, 2, with->end_of_document()};
  out.add_sequence(ids);
  out.end_document();
  out.finish(manifest_of(*with));
  training_job job;
  job.data.path.prefixes = {folder / "d"};
  job.data.split = "1,0,0";
  job.data.end_of_document = with->end_of_document();
  job.tokenizer_description = describe(choice, *with);
  return job;
}

std::string wrong_with(const training_job& job) {
  std::vector<std::string> wrong;
  validate_data(job, {}, wrong);
  validate_tokenizer_of_data(job, wrong);
  std::string out;
  for (const auto& one : wrong)
    out += one + "\n";
  return out;
}

}  // namespace

TEST_CASE("fill-in-the-middle needs the token that ends a document", "[trainer]") {
  const scratch_folder folder;
  auto job = job_of(folder, "<|endoftext|>");
  job.data.fim.enabled = true;
  CHECK(wrong_with(job).empty());
  job = job_of(folder, "<|im_end|>");
  CHECK(wrong_with(job).empty());
  job.data.fim.enabled = true;
  CHECK_THAT(wrong_with(job),
             ContainsSubstring("`data.fim.eod_token` '<|endoftext|>' does not end")
                 && ContainsSubstring("'<|im_end|>' (id 27)"));
  job.data.fim.eod_token = "<|im_end|>";
  CHECK(wrong_with(job).empty());
}

TEST_CASE("a tokenizer with more added tokens reads older data", "[trainer]") {
  const scratch_folder old, now;
  auto before = file_with_two_ends();
  before["added_tokens"].erase(2);
  before["added_tokens"].erase(2);
  before["added_tokens"].erase(2);
  before["added_tokens"].erase(2);
  const auto with_data_of = [&](const json& file) {
    troupe::tests::write_hub_tokenizer(old.path(), file);
    auto job = job_of(now, "<|endoftext|>");
    indexed_dataset_builder out(old / "d", 28);
    const std::vector<std::int32_t> ids = {1, 2, 26};
    out.add_sequence(ids);
    out.end_document();
    out.finish(manifest_of(*make_tokenizer(tokenizer_in(old.path()))));
    job.data.path.prefixes = {old / "d"};
    return job;
  };
  const auto job = with_data_of(before);
  CHECK(wrong_with(job).empty());
  CHECK_THAT(data_text(job, 1),
             ContainsSubstring("was written before 4 tokens were added to the tokenizer"));
  CHECK_THAT(data_text(job_of(now, "<|endoftext|>"), 1), !ContainsSubstring("written before"));
  // Refused: other ids, other settings of the same ids, and another end of documents.
  auto swapped = before;
  std::swap(swapped["model"]["vocab"]["b"], swapped["model"]["vocab"]["c"]);
  auto stripped = before;
  stripped["added_tokens"][1]["lstrip"] = true;
  auto lowered = before;
  lowered["normalizer"] = {{"type", "Lowercase"}};
  for (const auto& other : {swapped, stripped, lowered})
    CHECK_THAT(wrong_with(with_data_of(other)), ContainsSubstring("written by another tokenizer"));
  auto ends_otherwise = with_data_of(before);
  const auto ours = job_of(now, "<|im_end|>");
  ends_otherwise.data.end_of_document = ours.data.end_of_document;
  ends_otherwise.tokenizer_description = ours.tokenizer_description;
  CHECK_THAT(wrong_with(ends_otherwise), ContainsSubstring("written by another tokenizer"));
}

TEST_CASE("an invalid description of a tokenizer is refused", "[trainer]") {
  const scratch_folder folder;
  auto job = job_of(folder, "<|endoftext|>");
  for (const auto* const text : {R"({"type": 3, "fingerprint": "x"})",
                                 R"({"type": "HuggingFaceTokenizer", "fingerprint": [1]})",
                                 R"({"fingerprint": "x", "vocabulary_size": "many"})"}) {
    job.tokenizer_description = text;
    CHECK_THAT(wrong_with(job),
               ContainsSubstring("the job's description of its tokenizer")
                   && ContainsSubstring("fingerprint"));
  }
}
