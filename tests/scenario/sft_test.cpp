// Fine-tuning on conversations, in every layout: micro-batches with few, many or no answer tokens.

#include "runtime/data/indexed_dataset_builder.hpp"
#include "runtime/data/sft_dataset.hpp"
#include "runtime/family/gpt/gpt_config.hpp"
#include "runtime/model/choice_texts.hpp"
#include "tests/support/experts_job.hpp"
#include "tests/support/sampled_job.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <optional>

using namespace troupe;

namespace {

std::vector<std::int32_t> ids_of_talk(std::int32_t i, std::int64_t vocabulary) {
  const std::int32_t n = i % 5 == 0 ? 19 : 2 + i * 7 % 15;
  std::vector<std::int32_t> out;
  for (std::int32_t t = 0; t < n; ++t)
    out.push_back((i * 11 + t * (i % 3 + 1)) % std::int32_t(vocabulary));
  return out;
}

/// 90 conversations of 2 to 19 tokens. Every fifth has its answer beyond the 16 tokens of a sample.
void write_short_talks(const std::filesystem::path& prefix, std::int64_t vocabulary) {
  runtime::indexed_dataset_builder tokens(prefix, vocabulary);
  runtime::indexed_dataset_builder answers(runtime::answers_prefix(prefix), 1 << 20);
  for (std::int32_t i = 0; i < 90; ++i) {
    const auto ids = ids_of_talk(i, vocabulary);
    const auto n = std::int32_t(ids.size()), begin = i % 5 == 0 ? 17 : n / 2;
    const std::vector<std::int32_t> ends = {begin, n};
    tokens.add_sequence(ids);
    tokens.end_document();
    answers.add_sequence(ends);
    answers.end_document();
  }
  answers.finish();
  tokens.finish();
}

class talks_job final : public tests::sampled_job {
 public:
  explicit talks_job(const runtime::training_job& job) : sampled_job(job) {
    write_short_talks(folder() / "talks", job.training.model.vocabulary());
  }

 private:
  std::shared_ptr<const runtime::sample_dataset> samples() const override {
    const auto& model = job().training.model.as<runtime::gpt_config>();
    return std::make_shared<runtime::sft_dataset>(
        std::make_shared<runtime::conversation_source>(folder() / "talks"),
        runtime::split_matrix("1,0,0"),
        runtime::data_split::train,
        runtime::sft_dataset_options{.sequence_length = model.sequence,
                                     .samples = 200,
                                     .seed = 7,
                                     .vocabulary = model.vocabulary});
  }
};

}  // namespace

TEST_CASE("on conversations actors give the bits of the reference trainer", "[scenario]") {
  const int P = GENERATE(1, 2), D = GENERATE(1, 2);
  CAPTURE(P, D);
  tests::check_bits(talks_job(tests::tiny_job(P, D)));
}

TEST_CASE("with equal weights of answer tokens actors give the bits of the reference trainer",
          "[scenario][unsanitized]") {
  const int P = GENERATE(1, 2), D = GENERATE(1, 2);
  CAPTURE(P, D);
  auto what = tests::tiny_job(P, D);
  const talks_job by_microbatch(what);
  what.training.per_token_loss = true;
  what.training.precision = GENERATE(false, true) ? runtime::dtype::f16 : runtime::dtype::f32;
  const talks_job job(what);
  tests::check_bits(job);
  if (what.training.precision == runtime::dtype::f32)
    CHECK(job.by_reference().back().state != by_microbatch.by_reference().back().state);
}

TEST_CASE("with equal weights of answer tokens the step does not depend on the micro-batch size",
          "[scenario]") {
  auto what = tests::tiny_job(1, 1);
  what.train_iterations = 1;
  what.training.per_token_loss = true;
  const auto allowed = matrix::tolerance_of(what);
  std::optional<runtime::step_report> first;
  for (const int micro : {1, 2, 4, 8}) {
    what.training.batch = {.micro = micro, .global = 8, .data_parallel = 1};
    const auto step = talks_job(what).by_reference().front();
    if (!first)
      first = step;
    CHECK(std::abs(step.loss - first->loss) <= allowed.loss * first->loss);
    CHECK(std::abs(step.grad_norm - first->grad_norm) <= allowed.norm * first->grad_norm);
  }
}

TEST_CASE("on conversations tensor ranks compute the same step", "[scenario]") {
  auto what = tests::tiny_job(1, 1, 2);
  what.train_iterations = 1;
  what.layout.sequence_parallel = GENERATE(false, true);
  tests::check_first_step(talks_job(what));
}

TEST_CASE("a stopped and resumed fine-tuning run equals an uninterrupted one", "[scenario]") {
  const talks_job whole(tests::tiny_job(2, 2)), parts(tests::tiny_job(2, 2));
  tests::check_resumed(whole, parts);
}

TEST_CASE("a micro-batch without an answer adds nothing to the step", "[scenario]") {
  auto what = tests::tiny_job(1, 1);
  what.training.batch = {.micro = 1, .global = 8, .data_parallel = 1};
  const talks_job job(what);
  const auto source = job.source();
  int empty = 0;
  for (std::uint64_t m = 0; m < 8; ++m) {
    const auto x = source->microbatch({.microbatch = m});
    empty += std::ranges::all_of(x.at("mask").elements<float>(), [](float v) { return v == 0; })
                 ? 1
                 : 0;
  }
  CHECK(empty > 0);
  for (const auto& step : job.by_reference()) {
    CHECK(std::isfinite(step.loss));
    CHECK(std::isfinite(step.grad_norm));
  }
}

namespace {

/// Records two experts for each token of the first `count` conversations, which no router chose.
void record_choices_of_talks(const std::filesystem::path& to,
                             const runtime::gpt_config& m,
                             std::int32_t count) {
  const auto longest = m.sequence + 1;
  runtime::choice_text_writer writer(to, longest);
  for (std::int32_t i = 0; i < count; ++i) {
    auto tokens = ids_of_talk(i, m.vocabulary);
    const auto n = std::min<std::int64_t>(std::int64_t(tokens.size()), longest);
    tokens.resize(std::size_t(n));
    writer.write_tokens(std::uint64_t(i), 0, tokens);
    for (std::int64_t layer = 0; layer < m.layers; ++layer) {
      runtime::recorded_choice x{{.router = fmt::format("decoder.layers.{}.mlp.router", layer),
                                  .experts = 4,
                                  .each = 2,
                                  .positions = longest},
                                 {}};
      for (std::int64_t t = 0; t + 1 < n; ++t)
        for (const auto expert : {i + t + layer, i + t + layer + 1})
          x.chosen.push_back(std::uint16_t(expert % 4));
      writer.write_choices(std::uint64_t(i), 0, x, 0, n - 1);
    }
  }
}

}  // namespace

TEST_CASE("fine-tuning replays the choices of its conversations, in every layout", "[scenario]") {
  const int P = GENERATE(1, 2), D = GENERATE(1, 2);
  CAPTURE(P, D);
  auto what = tests::experts_job(P, D, 1, {.expert = D}, tests::make_mixtral);
  what.data.mock = false;
  const auto& m = what.training.model.as<runtime::gpt_config>();
  const talks_job plain(what);
  const tests::scratch_folder folder;
  record_choices_of_talks(folder / "all", m, 90);
  record_choices_of_talks(folder / "some", m, 10);
  what.training.expert_choices.replay = folder / "all";
  const talks_job replaying(what);
  tests::check_bits(replaying);
  CHECK(replaying.by_reference().back().state != plain.by_reference().back().state);
  what.training.expert_choices.replay = folder / "some";
  CHECK_THROWS_WITH(talks_job(what).by_reference(),
                    Catch::Matchers::ContainsSubstring("it has no text that this one"));
}
