// Fuzzes a GGUF file: its container, and the model folder that stands for it.

#include "runtime/checkpoint/gguf_model.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/family/families.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace troupe::runtime;
using namespace troupe::tests;

namespace {

constexpr const char* config = R"({"model_type": "llama", "hidden_size": 32,
  "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 4,
  "max_position_embeddings": 4, "tie_word_embeddings": true})";

void read_everything(const gguf_file& file) {
  for (const auto& x : file.tensors()) {
    std::vector<float> values(std::size_t(x.extents.size()));
    file.read(x, 0, values);
  }
}

/// Returns the file with a tokenizer of scored pieces.
std::string with_tokenizer(const std::filesystem::path& from) {
  const gguf_file in(from);
  auto metadata = in.metadata();
  std::erase_if(metadata, [](const auto& x) { return x.first.starts_with("tokenizer."); });
  metadata.emplace_back("tokenizer.ggml.model", gguf_value{gguf_type::string, {}, "llama"});
  metadata.emplace_back("tokenizer.ggml.tokens",
                        gguf_value{gguf_type::array, gguf_type::string, {"<unk>", "a", "b", "ab"}});
  metadata.emplace_back("tokenizer.ggml.scores",
                        gguf_value{gguf_type::array, gguf_type::f32, {0.0, -1.0, -2.0, -3.0}});
  const auto path = fuzz::folder() / "tokens.gguf";
  gguf_writer out(path, metadata, in.tensors());
  for (const auto& x : in.tensors()) {
    std::vector<float> values(std::size_t(x.extents.size()));
    in.read(x, 0, values);
    out.add(values);
  }
  out.commit();
  return fuzz::get(path);
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  hub_export what;
  what.model = hub_config(config, "seed");
  const auto zeros = [](const std::string&, const box&, std::span<float> to) {
    std::fill(to.begin(), to.end(), 0.5F);
  };
  std::vector<std::string> out;
  for (const auto type : {block_type::f32, block_type::q8_0}) {
    std::filesystem::remove(folder() / "seed.gguf");
    write_gguf_model(folder() / "seed.gguf", what, type, zeros);
    out.push_back(get(folder() / "seed.gguf"));
  }
  out.push_back(with_tokenizer(folder() / "seed.gguf"));
  return out;
}

std::vector<std::string> fuzz::dictionary() {
  return {"llama.block_count",
          "llama.attention.head_count",
          "llama.rope.scaling.type",
          "rope_freqs.weight",
          "general.alignment",
          "split.count",
          "blk.0.attn_q.weight",
          "tokenizer.ggml.model",
          "tokenizer.ggml.tokens",
          "tokenizer.ggml.scores",
          std::string("\x00\x00\xc0\x7f", 4),  // not a number
          "qwen2",
          std::string("\x0c\x00\x00\x00", 4),
          std::string("\x09\x00\x00\x00", 4),
          std::string("\xff\xff\xff\xff\xff\xff\xff\xff", 8)};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto path = fuzz::folder() / "x.gguf";
  fuzz::put(path, fuzz::text_of(data, size));
  fuzz::accepted([&] {
    read_everything(gguf_file(path));
    const auto cache = fuzz::folder() / "cache";
    std::filesystem::remove_all(cache);
    const auto found = read_hub_model(folder_of_gguf(path, cache));
    for (const auto& parameter : found.parameters()) {
      std::vector<float> values(std::size_t(found.extents(parameter.name).size()));
      found.read(parameter.name, values);
    }
  });
  return 0;
}
