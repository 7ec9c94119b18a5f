// T5s, compared with transformers and Megatron-core (tests/golden/t5/README.md).

#include "runtime/family/t5/t5.hpp"
#include "tests/support/golden_family.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

using namespace troupe;
using namespace troupe::runtime;
using namespace troupe::tests::golden;

namespace {

/// The model that t5_model.py writes: for Megatron-core with its parameters' names.
golden_family open_t5(const std::string& name,
                      const std::filesystem::path& folder,
                      const json& golden) {
  write_golden_model("t5", name, folder);
  t5_config shape;
  golden_family out;
  if (name != "t5_megatron") {
    const auto hub = std::make_shared<hub_model>(read_hub_model(folder));
    shape = hub->config().as<t5_config>();
    out.read = reader_of_hub(hub);
  } else {
    const auto& c = golden["model"];
    shape.encoder_layers = c["num_layers"];
    shape.decoder_layers = c["num_decoder_layers"];
    shape.hidden = c["d_model"];
    shape.heads = c["num_heads"];
    shape.head_size = c["d_kv"];
    shape.ffn = c["d_ff"];
    shape.vocabulary = shape.padded_vocabulary = c["vocab_size"];
    shape.positions = c["n_positions"];
    shape.norm_epsilon = c["layer_norm_epsilon"];
    shape.hidden_dropout = shape.attention_dropout = 0;
    out.read = reader_of_file(folder);
  }
  shape.encoder_sequence = golden["training"]["encoder_sequence_length"];
  shape.decoder_sequence = golden["training"]["sequence_length"];
  out.shape = shape;
  out.fill = [](const json& from, const sample_view& to) {
    put(to, "encoder_tokens", from["encoder"]);
    put(to, "tokens", from["tokens"]);
    put(to, "labels", from["labels"]);
    put_positions(to, "encoder_positions");
    put_positions(to, "positions");
    put_mask(to, std::vector<float>(from["labels"].size(), 1.0F));
    to.cut(std::int64_t(from["encoder"].size()), "encoder_documents");
    to.cut(std::int64_t(from["labels"].size()));
  };
  return out;
}

}  // namespace

TEST_CASE("the reference trainer reproduces T5s of transformers and Megatron-core",
          "[golden][t5][unsanitized]") {
  const std::string name = GENERATE("t5_v1_0", "t5_v1_1", "t5_megatron");
  const auto where = GENERATE(kernels::backend::cpu, kernels::backend::reference);
  const auto layout = GENERATE(reference_layout{},
                               reference_layout{.tensor = 2},
                               reference_layout{.tensor = 2, .sequence_parallel = true});
  CAPTURE(name, int(where), layout.tensor, layout.sequence_parallel);
  const tests::scratch_folder folder;
  const auto golden = golden_of("t5", name);
  auto model = open_t5(name, folder / "model", golden);
  auto& shape = model.shape.as<t5_config>();
  shape.padded_vocabulary = padded_vocabulary_size(shape.vocabulary, 64, 2);
  check_steps(model, golden, where, layout);
}

TEST_CASE("an imported T5 has the logits of transformers", "[golden][t5][unsanitized]") {
  const std::string name = GENERATE("t5_v1_0", "t5_v1_1", "t5_megatron");
  CAPTURE(name);
  const tests::scratch_folder folder;
  const auto golden = golden_of("t5", name);
  check_logits(open_t5(name, folder / "model", golden), golden);
}
