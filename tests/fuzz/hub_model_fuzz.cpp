// Fuzzes a Hugging Face model folder: config.json, the index and a file of tensors.

#include "runtime/checkpoint/hub.hpp"
#include "runtime/family/gpt/gpt_hub.hpp"
#include "tests/fuzz/fuzz.hpp"

#include <nlohmann/json.hpp>

using namespace troupe::runtime;
using namespace troupe::tests;

namespace {

constexpr const char* config
    = R"({"model_type":"gpt2","vocab_size":3,"n_positions":2,"n_embd":4,"n_layer":1,"n_head":2,"n_inner":4})";
constexpr const char* shard = "model-00001-of-00001.safetensors";

}  // namespace

std::vector<std::string> fuzz::seeds() {
  const std::vector<float> values(64, 0.5F);
  std::vector<shard_to_write> tensors;
  nlohmann::json map;
  for (const auto& recipe : gpt_hub_recipes(gpt_from_hub(config, "seed"), ""))
    for (const auto& rows : recipe.rows)
      if (!map.contains(rows.source)) {
        const auto columns = recipe.extents.rank() == 1 ? 0 : recipe.extents[1];
        const auto extents = columns == 0        ? shape{rows.of}
                             : recipe.transposed ? shape{columns, rows.of}
                                                 : shape{rows.of, columns};
        tensors.push_back(whole_tensor(rows.source, stored_type::f32, extents, values.data()));
        map[rows.source] = shard;
      }
  write_safetensors(folder() / "seed", tensors);
  return {joined({config, nlohmann::json{{"weight_map", map}}.dump(), get(folder() / "seed")})};
}

std::vector<std::string> fuzz::dictionary() {
  return {"\"weight_map\":",
          "../",
          "/dev/zero",
          "model-00002-of-00001.safetensors",
          "lm_head.weight",
          "transformer.",
          "\"F16\"",
          "\"n_layer\":1000000",
          std::string(section_mark),
          "wte.weight",
          "\\u0000",
          "\".\""};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto parts = fuzz::sections(fuzz::text_of(data, size), 3);
  const auto dir = fuzz::folder() / "hub";
  std::filesystem::create_directories(dir);
  fuzz::put(dir / "config.json", parts[0]);
  fuzz::put(dir / "model.safetensors.index.json", parts[1]);
  fuzz::put(dir / shard, parts[2]);
  fuzz::accepted([&] {
    const auto found = read_hub_model(dir);
    for (const auto& parameter : found.parameters()) {
      std::vector<float> values(std::size_t(found.extents(parameter.name).size()));
      found.read(parameter.name, values);
    }
  });
  return 0;
}
