#include "actors/command/commands.hpp"
#include "runtime/family/gpt/gpt.hpp"
#include "runtime/file/file.hpp"
#include "tests/command/given_flags.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <fstream>

using namespace troupe;
using namespace troupe::command;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("--load-hf and --load accept a Hugging Face folder with model and tokenizer",
          "[command]") {
  const tests::scratch_folder made;
  const auto folder = made.path() / "hub";
  runtime::make_folder(folder);
  const auto text = made.path() / "text";
  runtime::write_text(text, "in the beginning\n");
  command_line program("troupe", "");
  add_commands(program);
  program.parse({"tokenizer",
                 "train",
                 "--input",
                 text.string(),
                 "--vocab-size",
                 "260",
                 "--output",
                 folder.string()})();
  std::ofstream(folder / "config.json")
      << R"({"model_type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 32, "n_positions": 64,
             "vocab_size": 300})";
  const std::string base = "--micro-batch-size 1 --train-iters 4 --lr 1e-3 --mock-data ";
  for (const std::string flag : {"--load-hf ", "--load "}) {
    CAPTURE(flag);
    const auto x = training_job_from(tests::words_of(base + flag + folder.string()));
    CHECK(x.checkpoints.load_hub == folder);
    CHECK(x.checkpoints.load.empty());
    CHECK(x.training.model.layers() == 2);
    CHECK_THAT(x.tokenizer_description, ContainsSubstring("GPT2BPETokenizer"));
    // A tokenizer flag takes precedence.
    CHECK_THAT(training_job_from(tests::words_of(base + flag + folder.string()
                                                 + " --tokenizer-type NullTokenizer "
                                                   "--vocab-size 300"))
                   .tokenizer_description,
               ContainsSubstring("NullTokenizer"));
  }
}

namespace {

const std::string hub_run
    = "--micro-batch-size 1 --train-iters 4 --lr 1e-3 --mock-data --tokenizer-type NullTokenizer "
      "--vocab-size 300 --load-hf ";

/// Flags of a run with the hub model of this config.json.
std::string with_hub_model(const tests::scratch_folder& folder, const std::string& config) {
  std::ofstream(folder / "config.json") << config;
  return hub_run + folder.path().string() + " ";
}

std::string with_gpt2(const tests::scratch_folder& folder, const std::string& activation) {
  return with_hub_model(folder,
                        R"({"model_type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 32,
                            "n_positions": 64, "vocab_size": 300, "activation_function": ")"
                            + activation + "\"}");
}

}  // namespace

TEST_CASE("config.json defines the shape of a hub model, and flags must not change it",
          "[command]") {
  const tests::scratch_folder folder;
  const auto base = with_gpt2(folder, "gelu_new");
  const auto x = training_job_from(tests::words_of(base + "--num-layers 2 --seq-length 16"));
  CHECK(x.training.model.layers() == 2);
  CHECK(x.training.model.as<runtime::gpt_config>().hidden == 32);
  CHECK(x.training.model.sequence() == 16);
  CHECK(x.training.model.as<runtime::gpt_config>().positions == 64);
  CHECK(x.training.model.as<runtime::gpt_config>().hidden_dropout == 0);
  CHECK(x.checkpoints.load_hub == folder.path());
  CHECK_THAT(tests::refusal_of_flags(base + "--num-layers 3"),
             ContainsSubstring("--num-layers 3 contradicts --load-hf"));
  CHECK(tests::refusal_of_flags(
            base
            + "--num-layers 2 --hidden-size 32 --num-attention-heads 2 --ffn-hidden-size 128 "
              "--kv-channels 16 --max-position-embeddings 64 --norm-epsilon 1e-5 "
              "--normalization LayerNorm --position-embedding-type learned_absolute")
        == "accepted");
  for (const std::string flag : {"--hidden-size 64",
                                 "--num-attention-heads 4",
                                 "--ffn-hidden-size 64",
                                 "--kv-channels 8",
                                 "--max-position-embeddings 32",
                                 "--norm-epsilon 1e-6",
                                 "--normalization RMSNorm",
                                 "--apply-layernorm-1p",
                                 "--qk-layernorm",
                                 "--window-size 8,0",
                                 "--position-embedding-type rope",
                                 "--group-query-attention",
                                 "--swiglu",
                                 "--squared-relu",
                                 "--no-bias-gelu-fusion",
                                 "--disable-bias-linear",
                                 "--untie-embeddings-and-output-weights",
                                 "--rotary-base 500000",
                                 "--rotary-percent 0.5",
                                 "--rotary-interleaved",
                                 "--use-rope-scaling"}) {
    const auto said = tests::refusal_of_flags(base + flag);
    INFO(said);
    CHECK_THAT(said, ContainsSubstring(flag.substr(0, flag.find(' '))));
    CHECK_THAT(said, ContainsSubstring("contradicts --load-hf"));
  }
}

TEST_CASE("a hub model with experts takes another balance, and no other experts", "[command]") {
  const tests::scratch_folder folder;
  const auto base = with_hub_model(
      folder,
      R"({"model_type": "mixtral", "num_hidden_layers": 2, "num_attention_heads": 2,
          "num_key_value_heads": 1, "hidden_size": 32, "intermediate_size": 48, "vocab_size": 300,
          "max_position_embeddings": 64, "num_local_experts": 4, "num_experts_per_tok": 2})");
  const auto x = training_job_from(
      tests::words_of(base + "--num-experts 4 --moe-aux-loss-coeff 0.5 --moe-z-loss-coeff 0.25"));
  const auto& experts = x.training.model.as<runtime::gpt_config>().experts;
  CHECK(experts.number == 4);
  CHECK(experts.balance_weights == std::vector<double>{0.5});
  CHECK(experts.z_weight == 0.25);
  CHECK_THAT(tests::refusal_of_flags(base + "--num-experts 8"),
             ContainsSubstring("--num-experts 8 contradicts --load-hf"));
  CHECK(tests::refusal_of_flags(base + "--moe-layer-freq [1]*2") == "accepted");
  CHECK_THAT(tests::refusal_of_flags(base + "--moe-layer-freq 2"),
             ContainsSubstring("--moe-layer-freq 2 contradicts --load-hf"));
  CHECK_THAT(tests::refusal_of_flags(base + "--moe-router-bias-update-rate 0.1"),
             ContainsSubstring("without --moe-router-enable-expert-bias"));
  CHECK_THAT(tests::refusal_of_flags(base + "--moe-token-drop-policy position"),
             ContainsSubstring("without --moe-expert-capacity-factor"));
  CHECK_THAT(tests::refusal_of_flags(base + "--moe-router-pre-softmax"),
             ContainsSubstring("--moe-router-pre-softmax contradicts --load-hf"));
  CHECK_THAT(tests::refusal_of_flags(base + "--multi-latent-attention"),
             ContainsSubstring("--multi-latent-attention contradicts --load-hf"));
  CHECK_THAT(tests::refusal_of_flags(base + "--moe-router-load-balancing-type quantile_balancing"),
             ContainsSubstring("which no model of the Hub has"));
  const tests::scratch_folder dense;
  CHECK_THAT(tests::refusal_of_flags(with_gpt2(dense, "gelu_new") + "--moe-z-loss-coeff 0.25"),
             ContainsSubstring("--moe-z-loss-coeff contradicts --load-hf"));
}

TEST_CASE("each given activation is compared with that of a hub model", "[command]") {
  const tests::scratch_folder folder;
  const auto exact = with_gpt2(folder, "gelu");
  CHECK(tests::refusal_of_flags(exact + "--no-bias-gelu-fusion") == "accepted");
  const auto both = tests::refusal_of_flags(exact + "--swiglu --no-bias-gelu-fusion");
  CHECK_THAT(both,
             ContainsSubstring("--swiglu contradicts")
                 && !ContainsSubstring("--no-bias-gelu-fusion contradicts"));
  const auto gated
      = with_hub_model(folder,
                       R"({"model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 2,
          "hidden_size": 32, "intermediate_size": 64, "max_position_embeddings": 64,
          "rms_norm_eps": 1e-5, "vocab_size": 300, "hidden_act": "silu"})");
  CHECK(tests::refusal_of_flags(gated + "--swiglu --disable-bias-linear") == "accepted");
  CHECK_THAT(tests::refusal_of_flags(gated + "--swiglu --no-bias-gelu-fusion"),
             ContainsSubstring("--no-bias-gelu-fusion contradicts"));
}
