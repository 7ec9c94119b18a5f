// A job's data, and the tokenizer that they were made with.

#include "runtime/job/job_data.hpp"

#include "runtime/data/indexed_dataset_builder.hpp"
#include "runtime/data/token_schema.hpp"
#include "runtime/job/batches.hpp"
#include "runtime/job/job.hpp"
#include "tests/support/families.hpp"
#include "tests/support/hub_tokenizer.hpp"
#include "tests/support/sample_row.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

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

/// A job of the toy family, which has tensors and a rule of samples of its own.
training_job toy_job() {
  troupe::tests::test_families();
  training_job job;
  job.training.model = find_family("toy").smallest(2);
  job.data.split = "1,0,0";
  return job;
}

/// A data set of documents of one token each, repeated 4 times.
void write_documents(const std::filesystem::path& prefix, const std::vector<std::int32_t>& tokens) {
  indexed_dataset_builder out(prefix, 29);
  for (const auto token : tokens) {
    out.add_sequence(std::vector<std::int32_t>(4, token));
    out.end_document();
  }
  out.finish();
}

/// The first token, and the first element of "patches", of the first samples of a job.
std::vector<std::pair<std::int32_t, float>> first_samples(const training_job& job,
                                                          std::uint64_t samples) {
  const auto data = open_samples(job, data_split::train, samples, {});
  CHECK(data->size() >= samples);
  require_tensors(job, data->schema());
  memory_pool pool;
  std::vector<std::pair<std::int32_t, float>> out;
  for (std::uint64_t i = 0; i < samples; ++i) {
    CHECK(troupe::tests::writes_all(*data, i));
    const auto batch = empty_batch(data->schema(), 1, pool);
    data->fill(i, sample_view(batch, 0));
    out.emplace_back(batch.at("tokens").elements<std::int32_t>()[0],
                     batch.at("patches").elements<float>()[0]);
  }
  return out;
}

}  // namespace

TEST_CASE("a family reads files in its own way", "[trainer][family]") {
  const scratch_folder folder;
  write_documents(folder / "a", {7, 3});
  write_documents(folder / "b", {11});
  auto job = toy_job();
  job.data.path = blend_of(folder / "a");
  CHECK(wrong_with(job).empty());
  const auto sample = [](std::int32_t token) { return std::pair(token, float(token) / 29); };
  CHECK(first_samples(job, 3) == std::vector{sample(7), sample(3), sample(7)});
  CHECK(data_text(job, 3)
        == "3 training samples for a toy model from 8 tokens in 2 documents; 0 for validation, 0 "
           "for the test");
  CHECK(has_documents(job, data_split::train));
  CHECK(!has_documents(job, data_split::valid));
  job.data.path = {.prefixes = {folder / "a", folder / "b"}, .weights = {1, 1}};
  CHECK(first_samples(job, 4) == std::vector{sample(7), sample(11), sample(3), sample(11)});
  job.data.path.weights = {};
  CHECK(open_samples(job, data_split::train, 3, {})->size() == 3);
  CHECK_THROWS_WITH(open_samples(job, data_split::train, 4, {}),
                    ContainsSubstring("the train data have 3 samples"));
}

TEST_CASE("a family's samples have the ids of the job's tokenizer", "[trainer][family]") {
  const scratch_folder folder;
  auto job = job_of(folder, "<|im_end|>");  // a data set of three tokens
  job.training.model = toy_job().training.model;
  job.training.model.family().set_vocabulary(job.training.model, 32, 32);
  CHECK(wrong_with(job).empty());
  const auto row = troupe::tests::row_of(*open_samples(job, data_split::train, 1, {}), 0);
  CHECK(row.tokens == std::vector<std::int32_t>{1, 2, 27, 27, 27, 27});
  CHECK(row.mask == std::vector<float>{1, 1, 0, 0, 0, 0});
}

TEST_CASE("a family refuses files that have no samples of its own", "[trainer][family]") {
  const scratch_folder folder;
  write_documents(folder / "a", {28});
  auto job = toy_job();
  job.data.path = blend_of(folder / "a");
  CHECK_THROWS_WITH(open_samples(job, data_split::valid, 1, {}),
                    ContainsSubstring("has no sequence for them"));
  job.training.model.family().set_vocabulary(job.training.model, 28, 32);
  const auto data = open_samples(job, data_split::train, 1, {});
  CHECK_THROWS_WITH(troupe::tests::writes_all(*data, 0),
                    ContainsSubstring("an id of another vocabulary"));
  CHECK_THROWS_WITH(require_tensors(job, token_schema(job.training.model.sequence())),
                    ContainsSubstring("the data have only 'tokens'"));
}

TEST_CASE("FAMILY-3: a setting without effect on a family's samples is refused",
          "[trainer][family]") {
  const scratch_folder folder;
  write_documents(folder / "a", {7});
  const std::pair<const char*, void (*)(data_settings&)> settings[]
      = {{"data.sft", [](auto& x) { x.sft = true; }},
         {"data.fim.enabled", [](auto& x) { x.fim.enabled = true; }},
         {"data.eod_mask_loss", [](auto& x) { x.eod_mask_loss = true; }},
         {"data.reset_position_ids", [](auto& x) { x.reset_position_ids = true; }},
         {"data.reset_attention_mask", [](auto& x) { x.reset_attention_mask = true; }}};
  for (const auto& [name, change] : settings) {
    training_job text;
    auto own = toy_job();
    for (auto* job : {&text, &own}) {
      job->data.mock = true;
      change(job->data);
    }
    const auto refusal = fmt::format("`{}` has no effect on samples of", name);
    const auto only = refusal + " a toy model: leave it out\n";
    CHECK(wrong_with(own) == only);
    CHECK_THAT(wrong_with(text), !ContainsSubstring(refusal));
    own.data.mock = false;
    own.data.path = blend_of(folder / "a");
    CHECK(wrong_with(own) == only);
  }
}

TEST_CASE("made-up data need the token that ends documents where samples have it",
          "[trainer][family]") {
  training_job text;
  auto own = toy_job();
  for (auto* job : {&text, &own}) {
    job->data.mock = true;
    job->data.end_of_document = -1;
  }
  CHECK_THAT(wrong_with(text), ContainsSubstring("need a token that ends documents"));
  CHECK(wrong_with(own).empty());
  CHECK(data_text(own, 3) == "3 training samples made up for a toy model");
  own.data.mock = false;
  CHECK_THAT(wrong_with(own), ContainsSubstring("the training data is missing"));
}

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
