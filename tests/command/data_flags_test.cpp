#include "runtime/core/error.hpp"
#include "runtime/job/job_data.hpp"
#include "tests/command/setting_trials.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace troupe;
using namespace troupe::command;
using namespace troupe::tests;
using Catch::Matchers::ContainsSubstring;

namespace {

std::string data_refusal(const std::string& text) {
  try {
    job_of(complete(text));
  } catch (const runtime::error& failure) {
    return failure.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("epochs of conversations count samples, not padding", "[command][data]") {
  // A conversation of a few tokens becomes one sample of 32 tokens.
  const auto job = job_of(complete("--sft --split 100,0,0 --seq-length 32 --data-path "
                                   + files() / "talks_conversations "));
  CHECK_THAT(runtime::data_text(job, 1), ContainsSubstring("32 tokens: 1 epochs of"));
  CHECK_THAT(runtime::data_text(job, 3), ContainsSubstring("32 tokens: 3 epochs of"));
}

TEST_CASE("a second blend replaces the first, from the command line too", "[command][data]") {
  const auto data = files() / "data_text_document";
  const auto x
      = job_of(complete("--data-path 1 " + data + " 3 " + data + " --data-path " + data)).data;
  CHECK(x.path == runtime::blend_of(data));
  const auto y = job_of(complete("--data-path nowhere --data-path 1 " + data + " 3 " + data)).data;
  CHECK(y.path.prefixes.size() == 2);
  CHECK(y.path.weights == std::vector<double>{1, 3});
}

TEST_CASE("each part of the data has its own blend, by flags or by a file", "[command][data]") {
  const auto data = files() / "data_text_document";
  const auto x = job_of(complete("--train-data-path " + data + " --valid-data-path 2 " + data));
  CHECK(x.data.train_path == runtime::blend_of(data));
  CHECK(x.data.valid_path.weights == std::vector<double>{2});
  CHECK(x.watch.eval_interval > 0);
  CHECK(job_of(complete("--train-data-path " + data)).watch.eval_interval == 0);
  const auto y = job_of(complete("--per-split-data-args-path " + files() / "parts"));
  CHECK(y.data.train_path == runtime::blend_of(data));
  CHECK(job_of(complete("--data-args-path " + files() / "blend")).data.path.weights
        == std::vector<double>{1});
}

TEST_CASE("contradicting data flags are named in the error", "[command][data]") {
  const auto data = files() / "data_text_document";
  CHECK_THAT(data_refusal("--data-path 1 " + data + " -2 " + data),
             ContainsSubstring("--data-path") && ContainsSubstring("the weight -2"));
  CHECK_THAT(data_refusal("--train-data-path " + data + " --split 1,0,0"),
             ContainsSubstring("--split"));
  CHECK_THAT(data_refusal("--train-data-path " + data + " --data-path " + data),
             ContainsSubstring("--train-data-path") && ContainsSubstring("leave one out"));
  CHECK_THAT(data_refusal("--data-path " + data + " --data-args-path " + files() / "blend"),
             ContainsSubstring("--data-args-path"));
  CHECK_THAT(data_refusal("--train-data-path " + data + " --per-split-data-args-path "
                          + files() / "parts"),
             ContainsSubstring("--per-split-data-args-path"));
  CHECK_THAT(data_refusal("--mock-data --valid-data-path " + data),
             ContainsSubstring("--train-data-path"));
  CHECK_THAT(data_refusal("--data-args-path " + files() / "gone"), ContainsSubstring("gone"));
  CHECK_THAT(data_refusal("--per-split-data-args-path " + files() / "text"),
             ContainsSubstring("not JSON"));
  CHECK_THAT(data_refusal("--data-path 1 " + data + " 2 " + files() / "gone"),
             ContainsSubstring("gone"));
}
