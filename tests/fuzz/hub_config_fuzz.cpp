// Fuzzes config.json of a Hugging Face model.

#include "runtime/checkpoint/hub_export.hpp"
#include "runtime/family/gpt/gpt_hub.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace troupe::runtime;
using namespace troupe::tests;

std::vector<std::string> fuzz::seeds() {
  return {
      R"({"model_type":"gpt2","vocab_size":5,"n_positions":3,"n_embd":4,"n_layer":1,"n_head":2,"n_inner":6})",
      R"({"model_type":"llama","vocab_size":5,"hidden_size":8,"intermediate_size":12,"num_hidden_layers":1,)"
      R"("num_attention_heads":4,"num_key_value_heads":2,"rms_norm_eps":1e-5,"max_position_embeddings":16,)"
      R"("rope_theta":500000.0,"rope_scaling":{"rope_type":"llama3","factor":8.0,"low_freq_factor":1.0,)"
      R"("high_freq_factor":4.0,"original_max_position_embeddings":8}})",
      R"({"model_type":"qwen3","vocab_size":5,"hidden_size":8,"head_dim":4,"intermediate_size":12,)"
      R"("num_hidden_layers":1,"num_attention_heads":4,"num_key_value_heads":2,"rms_norm_eps":1e-6,)"
      R"("max_position_embeddings":16,"tie_word_embeddings":true})"};
}

std::vector<std::string> fuzz::dictionary() {
  return {"\"rope_scaling\":",
          "\"rope_type\":\"yarn\"",
          "\"linear\"",
          "null",
          "true",
          "1e308",
          "1e-308",
          "-1",
          "0",
          "9223372036854775807",
          "\"activation_function\":\"gelu\"",
          "\"hidden_act\":\"silu\"",
          "\"sliding_window\":",
          "\"attention_bias\":true",
          "\"n_inner\":null",
          "\"torch_dtype\":\"bfloat16\"",
          "[",
          "{"};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::accepted([&] {
    const auto found = gpt_from_hub(fuzz::text_of(data, size), "config.json");
    fuzz::require(validate(found).empty(), "an accepted model can be built");
    fuzz::require(parameter_count(found) > 0, "its parameters can be counted");
    fuzz::require(gpt_config_from_json(to_json(found)) == found,
                  "the shape of a model survives a round trip");
    std::string exported;
    try {
      exported = hub_config_json(found);
    } catch (const input_error&) {  // import supports more than export
    }
    fuzz::require(exported.empty() || gpt_from_hub(exported, "exported") == found,
                  "an exported model is imported unchanged");
    if (found.layers <= 100)
      gpt_hub_recipes(found, "");
  });
  return 0;
}
