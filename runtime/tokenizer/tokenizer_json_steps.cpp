#include "runtime/core/base64.hpp"
#include "runtime/tokenizer/byte_alphabet.hpp"
#include "runtime/tokenizer/pre_tokenizer.hpp"
#include "runtime/tokenizer/tokenizer_json_parts.hpp"

#include <utility>

namespace troupe::runtime {
namespace {

constexpr std::size_t most_parts
    = 100;  // length limit of a Sequence, because rules call each other recursively

expression expression_of(const json_part& pattern) {
  try {
    if (const auto regex = pattern.maybe("Regex"))
      return expression(regex->text());
    return expression(pattern_of(pattern.at("String").text()));
  } catch (const input_error& failure) {
    if (std::string_view(failure.what()).starts_with(pattern.where))
      throw;
    pattern.refuse(failure.what());
  }
}

split_behavior behavior_of(const json_part& from) {
  static const std::pair<const char*, split_behavior> names[]
      = {{"Removed", split_behavior::removed},
         {"Isolated", split_behavior::isolated},
         {"MergedWithPrevious", split_behavior::merged_with_previous},
         {"MergedWithNext", split_behavior::merged_with_next},
         {"Contiguous", split_behavior::contiguous}};
  const auto name = from.text();
  for (const auto& [text, value] : names)
    if (name == text)
      return value;
  from.refuse(fmt::format("there is no behavior '{}'", name));
}

normalizer::step mapped(const json_part& from) {
  const auto table = from.at("precompiled_charsmap");
  try {
    const auto bytes = from_base64(table.text());
    digester content;
    content.add(bytes);
    return mapped_characters{std::make_shared<const character_map>(bytes), content.result()};
  } catch (const input_error& failure) {
    table.refuse(failure.what());
  }
}

void add_bert(const json_part& from, std::vector<normalizer::step>& to) {
  if (from.flag("clean_text", true))
    to.emplace_back(cleaned());
  if (from.flag("handle_chinese_chars", true))
    to.emplace_back(spaced_ideographs());
  const bool small = from.flag("lowercase", true);
  if (from.flag("strip_accents", small)) {
    to.emplace_back(unicode_form::nfd);
    to.emplace_back(without_marks{true});
  }
  if (small)
    to.emplace_back(lowercase());
}

/// Returns a normalizer that has no settings.
std::optional<normalizer::step> plain_normalizer(const std::string& type) {
  static const std::pair<const char*, normalizer::step> all[]
      = {{"NFC", unicode_form::nfc},
         {"NFD", unicode_form::nfd},
         {"NFKC", unicode_form::nfkc},
         {"NFKD", unicode_form::nfkd},
         {"Lowercase", lowercase()},
         {"StripAccents", without_marks{false}},
         {"Nmt", nmt_cleaned()},
         {"ByteLevel", bytes_as_characters()}};
  for (const auto& [name, step] : all)
    if (name == type)
      return step;
  return std::nullopt;
}

std::string one_character(const json_part& from) {
  auto text = from.text();
  if (text.empty() || next_character(text, 0) != text.size())
    from.refuse(fmt::format("\"{}\" is not one character", text.substr(0, 40)));
  return text;
}

void add_metaspace(const json_part& from, std::vector<word_splitter::rule>& to) {
  const auto mark = one_character(from.at("replacement"));
  // Versions before 0.15 have only add_prefix_space.
  const auto scheme
      = from.text("prepend_scheme", from.flag("add_prefix_space", true) ? "always" : "never");
  static const std::pair<const char*, space_marks::before> names[]
      = {{"always", space_marks::before::always},
         {"never", space_marks::before::never},
         {"first", space_marks::before::first}};
  std::optional<space_marks::before> put;
  for (const auto& [name, value] : names)
    if (scheme == name)
      put = value;
  if (!put)
    from.refuse(fmt::format("there is no prepend_scheme '{}'", scheme));
  to.emplace_back(space_marks{mark, *put});
  if (from.flag("split", true))
    to.emplace_back(
        split_rule{expression(pattern_of(mark)), split_behavior::merged_with_next, false});
}

void add_byte_level(const json_part& from, std::vector<word_splitter::rule>& to) {
  from.at("add_prefix_space");
  if (from.flag("add_prefix_space", true))
    to.emplace_back(prefix_space());
  if (from.flag("use_regex", true))
    to.emplace_back(split_rule{expression(gpt2_words), split_behavior::isolated, false});
  to.emplace_back(bytes_to_characters());
}

text_frame around(const json_part& from) {
  const auto id = [&](const char* key) {
    const auto pair = from.at(key).elements();
    if (pair.size() != 2)
      from.at(key).refuse("it is not a token and its id");
    return std::int32_t(pair[1].whole(most_token_ids - 1));
  };
  return {{id("cls")}, {id("sep")}};
}

text_frame by_template(const json_part& from) {
  text_frame out;
  bool text = false;
  const auto tokens = from.at("special_tokens");
  for (const auto& piece : from.at("single").elements()) {
    if (const auto sequence = piece.maybe("Sequence")) {
      if (text || sequence->at("id").text() != "A")
        piece.refuse(text ? "the text occurs twice" : "it is not the text A");
      text = true;
      continue;
    }
    const auto name = piece.at("SpecialToken").at("id").text();
    for (const auto& id : tokens.at(name.c_str()).at("ids").elements())
      (text ? out.after : out.before).push_back(std::int32_t(id.whole(most_token_ids - 1)));
  }
  if (!text)
    from.refuse("the text is not in it");
  return out;
}

}  // namespace

void add_normalizer(const json_part& from, std::vector<normalizer::step>& to) {
  if (to.size() >= most_parts)
    from.refuse(fmt::format("there are more than {} normalizers", most_parts));
  const auto type = from.type();
  if (type == "Sequence") {
    for (const auto& one : from.at("normalizers").elements())
      add_normalizer(one, to);
  } else if (const auto plain = plain_normalizer(type)) {
    to.push_back(*plain);
  } else if (type == "Replace") {
    to.emplace_back(replaced{expression_of(from.at("pattern")), from.at("content").text()});
  } else if (type == "Prepend") {
    to.emplace_back(prepended{from.at("prepend").text()});
  } else if (type == "Strip") {
    to.emplace_back(stripped{from.flag("strip_left", true), from.flag("strip_right", true)});
  } else if (type == "BertNormalizer") {
    add_bert(from, to);
  } else if (type == "Precompiled") {
    to.push_back(mapped(from));
  } else {
    from.refuse(fmt::format(
        "the normalizer '{}' is not supported; NFC, NFD, NFKC, NFKD, Lowercase, Replace, "
        "Prepend, Strip, StripAccents, BertNormalizer, Precompiled, Nmt, ByteLevel and "
        "Sequence are",
        type));
  }
}

void add_rules(const json_part& from, std::vector<word_splitter::rule>& to) {
  if (to.size() >= most_parts)
    from.refuse(fmt::format("there are more than {} pre-tokenizers", most_parts));
  const auto type = from.type();
  const auto split
      = [&to](const std::string& pattern, split_behavior behavior, bool inverted = false) {
          to.emplace_back(split_rule{expression(pattern), behavior, inverted});
        };
  constexpr auto punctuation = R"([!-/:-@\[-`{-~\p{P}])";
  if (type == "Sequence") {
    for (const auto& one : from.at("pretokenizers").elements())
      add_rules(one, to);
  } else if (type == "ByteLevel") {
    add_byte_level(from, to);
  } else if (type == "Split") {
    to.emplace_back(split_rule{expression_of(from.at("pattern")),
                               behavior_of(from.at("behavior")),
                               from.flag("invert", false)});
  } else if (type == "Digits") {
    split(R"(\p{N})",
          from.flag("individual_digits", false) ? split_behavior::isolated
                                                : split_behavior::contiguous);
  } else if (type == "Punctuation") {
    split(punctuation,
          from.find("behavior") ? behavior_of(from.at("behavior")) : split_behavior::isolated);
  } else if (type == "Whitespace") {
    split("[" TROUPE_RUST_WORD_CHARACTERS "]+|[^" TROUPE_RUST_WORD_CHARACTERS R"(\s]+)",
          split_behavior::removed,
          true);
  } else if (type == "WhitespaceSplit") {
    split(R"(\s)", split_behavior::removed);
  } else if (type == "CharDelimiterSplit") {
    split(pattern_of(one_character(from.at("delimiter"))), split_behavior::removed);
  } else if (type == "BertPreTokenizer") {
    split(R"(\s)", split_behavior::removed);
    split(punctuation, split_behavior::isolated);
  } else if (type == "Metaspace") {
    add_metaspace(from, to);
  } else {
    from.refuse(
        fmt::format("the pre-tokenizer '{}' is not supported; ByteLevel, Metaspace, "
                    "BertPreTokenizer, Split, Digits, Punctuation, Whitespace, WhitespaceSplit, "
                    "CharDelimiterSplit and Sequence are",
                    type));
  }
}

void add_decoding(const json_part& from, std::vector<text_decoder::step>& to) {
  if (to.size() >= most_parts)
    from.refuse(fmt::format("there are more than {} decoders", most_parts));
  const auto type = from.type();
  if (type == "Sequence") {
    for (const auto& one : from.at("decoders").elements())
      add_decoding(one, to);
  } else if (type == "ByteLevel") {
    to.emplace_back(byte_level_decoding());
  } else if (type == "ByteFallback") {
    to.emplace_back(byte_fallback_decoding());
  } else if (type == "Metaspace") {
    const auto scheme
        = from.text("prepend_scheme", from.flag("add_prefix_space", true) ? "always" : "never");
    to.emplace_back(space_mark_decoding{one_character(from.at("replacement")), scheme != "never"});
  } else if (type == "WordPiece") {
    to.emplace_back(word_piece_decoding{from.at("prefix").text(), from.flag("cleanup", true)});
  } else if (type == "BPEDecoder") {
    to.emplace_back(suffix_decoding{from.at("suffix").text()});
  } else if (type == "Replace") {
    to.emplace_back(replace_decoding{expression_of(from.at("pattern")), from.at("content").text()});
  } else if (type == "Strip") {
    to.emplace_back(strip_decoding{one_character(from.at("content")),
                                   std::size_t(from.at("start").whole(1000)),
                                   std::size_t(from.at("stop").whole(1000))});
  } else if (type == "Fuse") {
    to.emplace_back(fuse_decoding());
  } else {
    from.refuse(
        fmt::format("the decoder '{}' is not supported; ByteLevel, ByteFallback, Metaspace, "
                    "WordPiece, BPEDecoder, Replace, Strip, Fuse and Sequence are",
                    type));
  }
}

text_frame frame_of(const json_part& from) {
  const auto type = from.type();
  if (type == "ByteLevel")
    return {};
  if (type == "BertProcessing" || type == "RobertaProcessing")
    return around(from);
  if (type == "TemplateProcessing")
    return by_template(from);
  if (type != "Sequence")
    from.refuse(
        fmt::format("the post-processor '{}' is not supported; TemplateProcessing, BertProcessing, "
                    "RobertaProcessing, ByteLevel and Sequence are",
                    type));
  text_frame out;
  for (const auto& one : from.at("processors").elements()) {
    auto next = frame_of(one);
    if (next.before.empty() && next.after.empty())
      continue;
    if (!out.before.empty() || !out.after.empty())
      one.refuse("it is the second processor that adds tokens around a text: not supported");
    out = std::move(next);
  }
  return out;
}

}  // namespace troupe::runtime
