#include "runtime/checkpoint/hub_export.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/json_reader.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/family/model_family.hpp"
#include "runtime/file/file.hpp"

namespace troupe::runtime {
namespace {

using nlohmann::ordered_json;

constexpr const char* end_of_text = "<|endoftext|>";

/// Returns the lines of merges.txt without a leading version line.
ordered_json merges_of(std::string_view text) {
  auto out = ordered_json::array();
  while (!text.empty()) {
    const auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (!line.empty() && !line.starts_with("#version"))
      out.push_back(std::string(line));
  }
  return out;
}

ordered_json byte_level(const char* which) {
  ordered_json out = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}};
  if (which == std::string_view("pre_tokenizer"))
    out["use_regex"] = true;  // use GPT-2's pattern
  return out;
}

}  // namespace

std::string hub_tokenizer_json(const hub_export& what) {
  const auto vocabulary = read_text(what.vocab_file), merges = read_text(what.merge_file);
  ordered_json out = {{"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}};
  out["added_tokens"] = ordered_json::array();
  if (what.end_of_document)
    out["added_tokens"].push_back({{"id", *what.end_of_document},
                                   {"content", end_of_text},
                                   {"single_word", false},
                                   {"lstrip", false},
                                   {"rstrip", false},
                                   {"normalized", false},
                                   {"special", true}});
  out["normalizer"] = nullptr;
  for (const auto* part : {"pre_tokenizer", "post_processor", "decoder"})
    out[part] = byte_level(part);
  out["model"] = {{"type", "BPE"},
                  {"dropout", nullptr},
                  {"unk_token", nullptr},
                  {"continuing_subword_prefix", ""},
                  {"end_of_word_suffix", ""},
                  {"fuse_unk", false},
                  {"byte_fallback", false},
                  {"vocab", parse_json(vocabulary, "'" + what.vocab_file.string() + "'")},
                  {"merges", merges_of(merges)}};
  return json_text(out) + "\n";
}

void write_hub_tokenizer(const std::filesystem::path& dir, const hub_export& what) {
  write_text(dir / "vocab.json", read_text(what.vocab_file));
  write_text(dir / "merges.txt", read_text(what.merge_file));
  write_text(dir / "tokenizer.json", hub_tokenizer_json(what));
  ordered_json config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                         {"clean_up_tokenization_spaces", false},
                         {"model_max_length", what.model.family().hub()->longest(what.model)}};
  if (what.end_of_document)
    config["bos_token"] = config["eos_token"] = end_of_text;
  write_text(dir / "tokenizer_config.json", json_text(config, 2) + "\n");
}

}  // namespace troupe::runtime
