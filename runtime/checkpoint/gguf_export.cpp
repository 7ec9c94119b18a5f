#include "runtime/checkpoint/gguf_model.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/json_reader.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/family/model_family.hpp"
#include "runtime/tokenizer/gguf_tokenizer.hpp"
#include "runtime/tokenizer/tokenizer_json.hpp"

#include <algorithm>
#include <map>
#include <optional>

namespace troupe::runtime {
namespace {

namespace fs = std::filesystem;

/// A tensor of the file, and the Hub's tensors that are its matrices.
struct gguf_stack {
  gguf_tensor tensor;
  std::int64_t paired = 0;
  std::vector<hub_tensor> matrices;
};

std::vector<gguf_stack> stacks_of(const hub_export& what, const gguf_plan& plan, block_type type) {
  std::vector<gguf_stack> out;
  std::map<std::string, std::size_t> places;
  if (!plan.rotary_factors.empty())
    out.push_back({.tensor = {.name = "rope_freqs.weight",
                              .extents = {std::int64_t(plan.rotary_factors.size())}}});
  for (auto& x : hub_tensors(what.model)) {
    const auto at = plan.place(x.name);
    if (std::exchange(x.transposed, false))
      x.extents = {x.extents[1], x.extents[0]};
    const auto [place, is_new] = places.emplace(at.tensor, out.size());
    if (is_new)
      out.push_back({.tensor = {.name = at.tensor}, .paired = at.paired});
    auto& to = out[place->second];
    to.matrices.push_back(std::move(x));
    auto extents = to.matrices.front().extents;
    if (at.matrix >= 0)
      extents = {std::int64_t(to.matrices.size()), extents[0], extents[1]};
    else if (extents.rank() == 2 && extents[0] == 1)
      extents = {extents[1]};  // the gate of shared experts
    to.tensor.extents = extents;
  }
  for (auto& x : out)
    x.tensor.type = gguf_type_of(x.tensor.name, x.tensor.extents, type);
  return out;
}

/// Makes the two halves of each head neighbours (gguf_import.cpp has the reverse).
std::vector<float> paired_rows(const std::vector<float>& from,
                               std::int64_t columns,
                               std::int64_t head_size) {
  std::vector<float> out(from.size());
  const auto rows = std::int64_t(from.size()) / columns, half = head_size / 2;
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto within = r % head_size;
    const auto to = r - within + within % half * 2 + within / half;
    std::copy_n(from.begin() + r * columns, columns, out.begin() + to * columns);
  }
  return out;
}

std::uint32_t file_type_of(block_type type) {
  switch (type) {
    case block_type::f32:
      return 0;
    case block_type::f16:
      return 1;
    case block_type::q4_0:
      return 2;
    case block_type::q8_0:
      return 7;
    case block_type::q4_k:
      return 14;
    case block_type::bf16:
      return 32;
    case block_type::q5_k:
    case block_type::q6_k:
      break;
  }
  throw broken_promise("GGUF-3: Q5_K and Q6_K are only read");
}

gguf_type element_of(const nlohmann::json& x) {
  return x.is_string()            ? gguf_type::string
         : x.is_boolean()         ? gguf_type::boolean
         : x.is_number_float()    ? gguf_type::f32
         : x.is_number_unsigned() ? gguf_type::u32
                                  : gguf_type::i32;
}

void add_all(gguf_metadata& to, const nlohmann::ordered_json& from) {
  for (const auto& [key, ordered] : from.items()) {
    const nlohmann::json x = ordered;
    gguf_value value{.value = x};
    if (x.is_array()) {
      value.type = gguf_type::array;
      // llama.cpp reads types of tokens as signed numbers.
      value.element = x.empty()                       ? gguf_type::string
                      : x.front().is_number_integer() ? gguf_type::i32
                                                      : element_of(x.front());
    } else {
      value.type = element_of(x);
    }
    to.emplace_back(key, std::move(value));
  }
}

std::optional<fs::path> file_named(const hub_export& what, std::string_view name) {
  const auto found
      = std::ranges::find(what.tokenizer_files, name, &std::pair<fs::path, std::string>::second);
  return found == what.tokenizer_files.end() ? std::nullopt : std::optional(found->first);
}

nlohmann::json json_file(const hub_export& what, std::string_view name) {
  const auto file = file_named(what, name);
  return file ? parse_json(read_text(*file), "'" + file->string() + "'") : nlohmann::json::object();
}

nlohmann::ordered_json tokenizer_of(const hub_export& what) {
  gguf_tokenizer_source from;
  from.vocabulary = what.model.vocabulary();
  from.end_of_document = what.end_of_document;
  from.configuration = json_file(what, "tokenizer_config.json");
  if (const auto chat = file_named(what, "chat_template.jinja"))
    from.chat_template = read_text(*chat);
  if (const auto file = file_named(what, "tokenizer.json")) {
    from.where = "'" + file->string() + "'";
    from.tokenizer = parse_json(read_text(*file), from.where);
    from.frame = load_tokenizer_json(*file).frame;
  } else if (!what.vocab_file.empty()) {
    from.where = "'" + what.vocab_file.string() + "'";
    from.tokenizer = json_value(hub_tokenizer_json(what));
  } else if (!what.tokenizer_files.empty()) {
    throw input_error(
        "cannot write the tokenizer '{}' into a GGUF file: name the folder of an equal "
        "tokenizer.json by `tokenizer.folder`, or export the model as a folder of Hugging Face",
        what.tokenizer_files.front().first.string());
  } else {
    return nlohmann::ordered_json::object({{"tokenizer.ggml.model", "none"}});
  }
  return gguf_of_tokenizer(from);
}

}  // namespace

block_type gguf_type_of(const std::string& tensor, const shape& extents, block_type wanted) {
  if (extents.rank() < 2 || tensor.ends_with("position_embd.weight")
      || tensor.ends_with("ffn_gate_inp.weight"))
    return block_type::f32;
  if (wanted == block_type::q4_k && (tensor == "token_embd.weight" || tensor == "output.weight"))
    wanted = block_type::q8_0;
  const auto row = extents[extents.rank() - 1];
  for (const auto fallback : {wanted, block_type::q8_0})
    if (row % format_of(fallback).elements == 0)
      return fallback;
  return block_type::f16;
}

std::uint64_t gguf_model_bytes(const hub_export& what, block_type type) {
  std::uint64_t bytes = 0;
  for (const auto& x : stacks_of(what, what.model.family().hub()->gguf_of(what.model), type))
    bytes += gguf_bytes(x.tensor.type, x.tensor.extents);
  return bytes;
}

void write_gguf_model(const fs::path& file,
                      const hub_export& what,
                      block_type type,
                      const hub_source& read,
                      const std::function<void(std::uint64_t)>& advance) {
  std::error_code failure;
  if (fs::exists(fs::symlink_status(file, failure)))
    throw input_error("'{}' exists; name a new file", file.string());
  const auto plan = what.model.family().hub()->gguf_of(what.model);
  gguf_metadata metadata;
  add_all(metadata, plan.metadata);
  metadata.emplace_back("general.file_type", gguf_value{.value = file_type_of(type)});
  metadata.emplace_back("general.quantization_version", gguf_value{.value = 2U});
  metadata.emplace_back(plan.architecture + ".vocab_size",
                        gguf_value{.value = std::uint32_t(what.model.vocabulary())});
  add_all(metadata, tokenizer_of(what));
  const auto stacks = stacks_of(what, plan, type);
  std::vector<gguf_tensor> tensors;
  for (const auto& x : stacks)
    tensors.push_back(x.tensor);
  make_folder(fs::absolute(file).parent_path());
  gguf_writer out(file, metadata, std::move(tensors));
  const auto begin = out.size();
  for (const auto& stack : stacks) {
    if (stack.matrices.empty())
      out.add(plan.rotary_factors);
    for (const auto& x : stack.matrices) {
      auto values = assembled(x, what, read);
      if (stack.paired > 0)
        values = paired_rows(values, row_size(x.extents), stack.paired);
      out.add(values);
      if (advance)
        advance(out.size() - begin);
    }
  }
  out.commit();
}

}  // namespace troupe::runtime
