// Fill-in-the-middle in every layout: a sample does not depend on the worker.

#include "runtime/data/gpt_dataset.hpp"
#include "runtime/data/indexed_dataset_builder.hpp"
#include "runtime/family/gpt/gpt_config.hpp"
#include "tests/support/byte_tokenizer.hpp"
#include "tests/support/sampled_job.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

using namespace troupe;

namespace {

constexpr std::int32_t eod = 258;

std::shared_ptr<const runtime::fill_in_middle> cutter() {
  runtime::fim_settings settings;
  settings.rate = 0.8;
  return std::make_shared<runtime::fill_in_middle>(
      settings,
      std::make_shared<tests::byte_tokenizer>(
          "th",
          std::vector<std::string>{
              "<|endoftext|>", "<fim-prefix>", "<fim-middle>", "<fim-suffix>", "<fim-pad>"}),
      5);
}

runtime::training_job tiny_bytes_job(int pipeline, int data, int tensor = 1) {
  auto job = tests::tiny_job(pipeline, data, tensor);
  job.training.model.as<runtime::gpt_config>().vocabulary = 263;
  job.training.model.as<runtime::gpt_config>().padded_vocabulary = 384;
  return job;
}

/// Documents of text, some of them empty: padding completes a sample then.
class cut_text_job final : public tests::sampled_job {
 public:
  explicit cut_text_job(const runtime::training_job& job, bool cut = true)
      : sampled_job(job), cut_(cut) {
    runtime::indexed_dataset_builder tokens(folder() / "text", job.training.model.vocabulary());
    const tests::byte_tokenizer by("th");
    for (int i = 0; i < 90; ++i) {
      auto ids = by.encode(std::string("the path, the other path").substr(0, std::size_t(i % 25)));
      ids.push_back(eod);
      tokens.add_sequence(ids);
      tokens.end_document();
    }
    tokens.finish();
  }

 private:
  std::shared_ptr<const runtime::sample_dataset> samples() const override {
    const auto& model = job().training.model.as<runtime::gpt_config>();
    return std::make_shared<runtime::gpt_dataset>(
        std::make_shared<runtime::indexed_dataset>(folder() / "text"),
        runtime::split_matrix("1,0,0"),
        runtime::data_split::train,
        runtime::gpt_dataset_options{.sequence_length = model.sequence,
                                     .samples = 200,
                                     .seed = 7,
                                     .vocabulary = model.vocabulary,
                                     .end_of_document = eod,
                                     .fim = cut_ ? cutter() : nullptr});
  }

  bool cut_;
};

}  // namespace

TEST_CASE("with fill-in-the-middle actors give the bits of the reference trainer",
          "[scenario][unsanitized]") {
  const int P = GENERATE(1, 2), D = GENERATE(1, 2);
  CAPTURE(P, D);
  const auto what = tiny_bytes_job(P, D);
  const cut_text_job job(what), whole(what, false);
  tests::check_bits(job);
  CHECK(job.by_reference().back().state != whole.by_reference().back().state);
}

TEST_CASE("with fill-in-the-middle tensor ranks compute the same step", "[scenario]") {
  auto what = tiny_bytes_job(1, 1, 2);
  what.train_iterations = 1;
  tests::check_first_step(cut_text_job(what));
}

TEST_CASE("with fill-in-the-middle a stopped and resumed run equals an uninterrupted one",
          "[scenario]") {
  const cut_text_job whole(tiny_bytes_job(2, 2)), parts(tiny_bytes_job(2, 2));
  tests::check_resumed(whole, parts);
}
