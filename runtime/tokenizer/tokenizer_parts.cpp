#include "runtime/tokenizer/tokenizer_parts.hpp"

#include <fmt/format.h>

namespace troupe::runtime {
namespace {

/// Adds the length, so that adjacent texts cannot be confused.
std::string counted(const std::string& text) {
  return fmt::format("{} {}", text.size(), text);
}

std::string id_of(const std::optional<std::int32_t>& x) {
  return x ? std::to_string(*x) : "none";
}

struct step_line {
  std::string operator()(unicode_form x) const { return fmt::format("form {}\n", int(x)); }
  std::string operator()(const lowercase&) const { return "lowercase\n"; }
  std::string operator()(const replaced& x) const {
    return fmt::format("replace {} by {}\n", counted(x.what.pattern()), counted(x.by));
  }
  std::string operator()(const prepended& x) const {
    return fmt::format("prepend {}\n", counted(x.text));
  }
  std::string operator()(const stripped& x) const {
    return fmt::format("strip {} {}\n", x.left, x.right);
  }
  std::string operator()(const cleaned&) const { return "clean\n"; }
  std::string operator()(const spaced_ideographs&) const { return "space ideographs\n"; }
  std::string operator()(const without_marks& x) const {
    return fmt::format("without marks {}\n", x.nonspacing_only);
  }
  std::string operator()(const nmt_cleaned&) const { return "nmt\n"; }
  std::string operator()(const mapped_characters& x) const {
    return fmt::format("map by {}\n", to_string(x.content));
  }
  std::string operator()(const bytes_as_characters&) const { return "bytes\n"; }
};

struct rule_line {
  std::string operator()(const split_rule& x) const {
    return fmt::format("split {} {} {}\n", counted(x.what.pattern()), int(x.behavior), x.inverted);
  }
  std::string operator()(const prefix_space&) const { return "space before\n"; }
  std::string operator()(const space_marks& x) const {
    return fmt::format("mark spaces by {} {}\n", counted(x.mark), int(x.put));
  }
  std::string operator()(const bytes_to_characters&) const { return "bytes\n"; }
};

struct model_line {
  std::string operator()(const byte_bpe_parts& x) const {
    return std::string(x.whole_words.empty() ? "" : "whole words\n")
           + (x.order == merge_order::by_result ? "merges by result\n" : "");
  }
  std::string operator()(const piece_bpe_settings& x) const {
    return fmt::format("pieces: unknown {} {} bytes {} prefix {} suffix {} whole {}\n",
                       id_of(x.unknown),
                       x.fuse_unknown,
                       x.byte_fallback,
                       counted(x.prefix),
                       counted(x.suffix),
                       x.whole_words);
  }
  std::string operator()(const unigram_settings& x) const {
    auto out = fmt::format("unigram: unknown {} bytes {}\n", id_of(x.unknown), x.byte_fallback);
    for (const auto score : x.scores)
      out += fmt::format("{:a}\n", score);
    return out;
  }
  std::string operator()(const word_piece_settings& x) const {
    return fmt::format("word pieces: unknown {} prefix {} longest {}\n",
                       id_of(x.unknown),
                       counted(x.prefix),
                       x.longest_word);
  }
  std::string operator()(const word_level_parts& x) const {
    return fmt::format("words: unknown {}\n", id_of(x.unknown));
  }
};

}  // namespace

bool does_as_gpt2(const tokenizer_parts& x) {
  const auto& added = x.added;
  return x.cut_as_gpt2
         && (added.empty()
             || (added.size() == 1 && added.front().content == end_of_document_text
                 && added.front().special && !added.front().lstrip && !added.front().rstrip
                 && !added.front().single_word));
}

std::string configuration_of(const tokenizer_parts& x) {
  std::string out;
  for (const auto& one : x.added)
    out += fmt::format("added {} {}{}{}{}{}{}\n",
                       one.id,
                       int(one.single_word),
                       int(one.lstrip),
                       int(one.rstrip),
                       int(one.normalized),
                       int(one.special),
                       x.own.find(one.content) ? " own" : "");
  for (const auto& one : x.normal)
    out += std::visit(step_line(), one);
  for (const auto& one : x.rules)
    out += std::visit(rule_line(), one);
  return out + std::visit(model_line(), x.model);
}

}  // namespace troupe::runtime
