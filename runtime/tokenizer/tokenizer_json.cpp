#include "runtime/tokenizer/tokenizer_json.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/file.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/tokenizer/byte_alphabet.hpp"
#include "runtime/tokenizer/pre_tokenizer.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace troupe::runtime {
namespace {

using json = nlohmann::json;

/// Ids that no token has, at most: memory is taken for each.
constexpr std::size_t most_missing_ids = 1 << 16;
constexpr int deepest_json = 64;
constexpr std::size_t most_parts = 100;  // of a Sequence: each rule calls the next

/// A part of the file, and how messages name it.
struct part {
  const json& value;
  std::string where;

  [[noreturn]] void refuse(const std::string& what) const {
    throw input_error("{}: {}", where, what);
  }

  const json* find(const char* key) const {
    if (!value.is_object())
      refuse("it is a JSON " + std::string(value.type_name()) + ", not an object");
    const auto found = value.find(key);
    return found == value.end() || found->is_null() ? nullptr : &*found;
  }
  part at(const char* key) const {
    const auto* const found = find(key);
    if (!found)
      refuse(fmt::format("\"{}\" is missing", key));
    return {*found, fmt::format("{}, {}", where, key)};
  }
  std::optional<part> maybe(const char* key) const {
    return find(key) ? std::optional(at(key)) : std::nullopt;
  }
  std::string text() const {
    if (!value.is_string())
      refuse("it is a JSON " + std::string(value.type_name()) + ", not a string");
    return value.get<std::string>();
  }
  bool flag(const char* key, bool otherwise) const {
    const auto* const found = find(key);
    if (found && !found->is_boolean())
      refuse(fmt::format("\"{}\" is neither true nor false", key));
    return found ? found->get<bool>() : otherwise;
  }
  /// Of one of so many tokens.
  std::int32_t id(std::size_t tokens) const {
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() >= tokens + most_missing_ids)
      refuse(fmt::format("the id {} is no whole number from 0 to {}, for {} tokens",
                         json_text_replacing(value).substr(0, 40),
                         tokens + most_missing_ids - 1,
                         tokens));
    return value.get<std::int32_t>();
  }
  std::vector<part> elements() const {
    if (!value.is_array())
      refuse("it is a JSON " + std::string(value.type_name()) + ", not an array");
    std::vector<part> out;
    for (std::size_t i = 0; i < value.size(); ++i)
      out.push_back({value[i], fmt::format("{} {}", where, i + 1)});
    return out;
  }
  std::string type() const { return at("type").text(); }
};

expression expression_of(const part& pattern) {
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

split_behavior behavior_of(const part& from) {
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

void add_normalizer(const part& from, std::vector<normalizer::step>& to) {
  if (to.size() == most_parts)
    from.refuse(fmt::format("there are more than {} normalizers", most_parts));
  const auto type = from.type();
  if (type == "Sequence") {
    for (const auto& one : from.at("normalizers").elements())
      add_normalizer(one, to);
  } else if (type == "NFC") {
    to.emplace_back(unicode_form::nfc);
  } else if (type == "NFD") {
    to.emplace_back(unicode_form::nfd);
  } else if (type == "NFKC") {
    to.emplace_back(unicode_form::nfkc);
  } else if (type == "NFKD") {
    to.emplace_back(unicode_form::nfkd);
  } else if (type == "Lowercase") {
    to.emplace_back(lowercase());
  } else if (type == "Replace") {
    to.emplace_back(replaced{expression_of(from.at("pattern")), from.at("content").text()});
  } else if (type == "Prepend") {
    to.emplace_back(prepended{from.at("prepend").text()});
  } else if (type == "Strip") {
    to.emplace_back(stripped{from.flag("strip_left", true), from.flag("strip_right", true)});
  } else {
    from.refuse(
        fmt::format("the normalizer '{}' is not supported; NFC, NFD, NFKC, NFKD, "
                    "Lowercase, Replace, Prepend, Strip and Sequence are",
                    type));
  }
}

/// True when it ended with ByteLevel, after which nothing may follow.
bool add_rules(const part& from, std::vector<word_splitter::rule>& to) {
  if (to.size() >= most_parts)
    from.refuse(fmt::format("there are more than {} pre-tokenizers", most_parts));
  const auto type = from.type();
  const auto split = [&to](const char* pattern, split_behavior behavior, bool inverted = false) {
    to.emplace_back(split_rule{expression(pattern), behavior, inverted});
  };
  if (type == "Sequence") {
    bool ended = false;
    for (const auto& one : from.at("pretokenizers").elements()) {
      if (ended)
        one.refuse("it follows ByteLevel, which leaves bytes: not supported");
      ended = add_rules(one, to);
    }
    return ended;
  }
  if (type == "ByteLevel") {
    from.at("add_prefix_space");
    if (from.flag("add_prefix_space", true))
      to.emplace_back(prefix_space());
    if (from.flag("use_regex", true))
      split(gpt2_words, split_behavior::isolated);
    return true;
  }
  if (type == "Split")
    to.emplace_back(split_rule{expression_of(from.at("pattern")),
                               behavior_of(from.at("behavior")),
                               from.flag("invert", false)});
  else if (type == "Digits")
    split(R"(\p{N})",
          from.flag("individual_digits", false) ? split_behavior::isolated
                                                : split_behavior::contiguous);
  else if (type == "Punctuation")
    to.emplace_back(split_rule{
        expression(R"([!-/:-@\[-`{-~\p{P}])"),
        from.find("behavior") ? behavior_of(from.at("behavior")) : split_behavior::isolated});
  else if (type == "Whitespace")
    split("[" TROUPE_RUST_WORD_CHARACTERS "]+|[^" TROUPE_RUST_WORD_CHARACTERS R"(\s]+)",
          split_behavior::removed,
          true);
  else if (type == "WhitespaceSplit")
    split(R"(\s)", split_behavior::removed);
  else
    from.refuse(
        fmt::format("the pre-tokenizer '{}' is not supported; ByteLevel, Split, Digits, "
                    "Punctuation, Whitespace, WhitespaceSplit and Sequence are",
                    type));
  return false;
}

void require_byte_level_decoder(const part& from) {
  const auto type = from.type();
  if (type == "Sequence") {
    for (const auto& one : from.at("decoders").elements())
      require_byte_level_decoder(one);
    return;
  }
  if (type != "ByteLevel")
    from.refuse(fmt::format("the decoder '{}' is not supported; ByteLevel is", type));
}

using token_ids = std::unordered_map<std::string, std::int32_t>;

void put(std::vector<std::string>& tokens, std::int32_t id, const std::string& token) {
  if (std::size_t(id) >= tokens.size())
    tokens.resize(std::size_t(id) + 1);
  tokens[std::size_t(id)] = token;
}

token_ids read_tokens(const part& vocab, std::vector<std::string>& tokens) {
  if (!vocab.value.is_object())
    vocab.refuse("it is no object of token: id");
  token_ids ids;
  std::unordered_set<std::int32_t> taken;
  for (const auto& [token, value] : vocab.value.items()) {
    const auto id
        = part{value, fmt::format("{}, the token \"{}\"", vocab.where, token.substr(0, 80))}.id(
            vocab.value.size());
    if (!taken.insert(id).second)
      vocab.refuse(fmt::format("tokens \"{}\" and \"{}\" have the same id {}",
                               tokens[std::size_t(id)].substr(0, 80),
                               token.substr(0, 80),
                               id));
    put(tokens, id, token);
    ids.emplace(token, id);
  }
  return ids;
}

/// "left right", or since 2024 ["left", "right"].
std::pair<std::string, std::string> pair_of(const part& merge) {
  if (merge.value.is_array() && merge.value.size() == 2) {
    const auto both = merge.elements();
    return {both[0].text(), both[1].text()};
  }
  const auto text = merge.text();
  const auto space = text.find(' ');
  if (space == text.npos || text.find(' ', space + 1) != text.npos)
    merge.refuse(
        fmt::format("\"{}\" is not two tokens with one space between", text.substr(0, 80)));
  return {text.substr(0, space), text.substr(space + 1)};
}

void read_merges(const part& merges, const token_ids& ids, std::vector<bpe_merge>& to) {
  std::vector<std::optional<bpe_merge>> all;
  std::unordered_map<std::uint64_t, std::size_t> last;  // by pair: which of several counts
  for (const auto& merge : merges.elements()) {
    if (merge.value.is_string() && all.empty() && merge.text().starts_with("#version"))
      continue;
    const auto [left, right] = pair_of(merge);
    const auto id = [&](const std::string& token) {
      const auto found = ids.find(token);
      if (found == ids.end())
        merge.refuse(fmt::format("the vocabulary has no token \"{}\"", token.substr(0, 80)));
      return found->second;
    };
    const bpe_merge one{id(left), id(right), id(left + right)};
    const auto pair = std::uint64_t(one.left) << 32 | std::uint32_t(one.right);
    if (const auto [before, fresh] = last.emplace(pair, all.size()); !fresh) {
      all[before->second].reset();
      before->second = all.size();
    }
    all.push_back(one);
  }
  for (const auto& one : all)
    if (one)
      to.push_back(*one);
}

void read_model(const part& model, tokenizer_json& out) {
  // Files before 2020 name no type.
  if (const auto type = model.maybe("type"); type && type->text() != "BPE")
    model.refuse(fmt::format("the model '{}' is not supported; BPE on bytes is", type->text()));
  if (const auto* const dropout = model.find("dropout"); dropout && *dropout != 0)
    model.refuse("\"dropout\" makes texts random; set it to null");
  for (const auto* key : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (const auto text = model.maybe(key); text && !text->text().empty())
      model.refuse(fmt::format("\"{}\" is \"{}\": not supported", key, text->text().substr(0, 40)));
  model.flag("byte_fallback", false);  // of no account where every byte is a token
  const auto vocab = model.at("vocab");
  const auto ids = read_tokens(vocab, out.vocabulary.tokens);
  for (unsigned byte = 0; byte < 256; ++byte) {
    const auto found = ids.find(std::string(character_of(std::uint8_t(byte))));
    if (found == ids.end())
      vocab.refuse(fmt::format("it has no token \"{}\" for byte 0x{:02X}; is it of a BPE on bytes?",
                               character_of(std::uint8_t(byte)),
                               byte));
    out.vocabulary.byte_ids[byte] = found->second;
  }
  if (model.flag("ignore_merges", false))
    for (const auto& [token, id] : ids)
      if (to_bytes(token))
        out.whole_words.push_back(id);
  read_merges(model.at("merges"), ids, out.vocabulary.merges);
}

/// Hugging Face's library gives ids itself: that of the vocabulary, or else the next one; a file
/// that says otherwise is read in two ways.
void read_added(const part& from, const std::size_t vocabulary, tokenizer_json& out) {
  auto& tokens = out.vocabulary.tokens;
  std::unordered_map<std::string, std::int32_t> known;
  for (std::size_t id = 0; id < tokens.size(); ++id)
    if (!tokens[id].empty())
      known.emplace(tokens[id], std::int32_t(id));
  std::unordered_set<std::string> seen;
  auto next = std::int32_t(vocabulary);
  for (const auto& one : from.elements()) {
    const added_token token{.id = one.at("id").id(vocabulary + from.value.size()),
                            .content = one.at("content").text(),
                            .single_word = one.flag("single_word", false),
                            .lstrip = one.flag("lstrip", false),
                            .rstrip = one.flag("rstrip", false),
                            .normalized = one.flag("normalized", !one.flag("special", false)),
                            .special = one.flag("special", false)};
    if (token.content.empty())
      one.refuse("its content is empty");
    const auto shown = token.content.substr(0, 80);
    if (!seen.insert(token.content).second)
      one.refuse(fmt::format("\"{}\" is there twice", shown));
    const auto found = known.find(token.content);
    const auto expected = found == known.end() ? next : found->second;
    if (token.id != expected)
      one.refuse(
          fmt::format("the id of \"{}\" is {}, but Hugging Face's tokenizers would give it {}",
                      shown,
                      token.id,
                      expected));
    if (found == known.end() && std::size_t(token.id) < tokens.size()
        && !tokens[std::size_t(token.id)].empty())
      one.refuse(fmt::format("the id {} of \"{}\" is that of \"{}\"",
                             token.id,
                             shown,
                             tokens[std::size_t(token.id)].substr(0, 80)));
    next = std::max(next, token.id + 1);
    put(tokens, token.id, token.content);
    out.added.push_back(token);
  }
}

/// A text with its length, so that two in a row are not one.
std::string counted(const std::string& text) {
  return fmt::format("{} {}", text.size(), text);
}

std::string line_of(const normalizer::step& step) {
  if (const auto* const form = std::get_if<unicode_form>(&step))
    return fmt::format("form {}\n", int(*form));
  if (std::holds_alternative<lowercase>(step))
    return "lowercase\n";
  if (const auto* const x = std::get_if<replaced>(&step))
    return fmt::format("replace {} by {}\n", counted(x->what.pattern()), counted(x->by));
  if (const auto* const x = std::get_if<prepended>(&step))
    return fmt::format("prepend {}\n", counted(x->text));
  const auto& x = std::get<stripped>(step);
  return fmt::format("strip {} {}\n", x.left, x.right);
}

std::string line_of(const word_splitter::rule& rule) {
  const auto* const x = std::get_if<split_rule>(&rule);
  return x ? fmt::format(
             "split {} {} {}\n", counted(x->what.pattern()), int(x->behavior), x->inverted)
           : "space before\n";
}

/// Everything that decides about ids but the vocabulary and the merges, a line each: what a file
/// leaves to its defaults does not matter.
std::string configuration_of(const tokenizer_json& x, const std::vector<normalizer::step>& steps) {
  std::string out;
  for (const auto& one : x.added)
    out += fmt::format("added {} {}{}{}{}{}\n",
                       one.id,
                       int(one.single_word),
                       int(one.lstrip),
                       int(one.rstrip),
                       int(one.normalized),
                       int(one.special));
  for (const auto& one : steps)
    out += line_of(one);
  for (const auto& one : x.rules)
    out += line_of(one);
  return out + (x.whole_words.empty() ? "" : "whole words\n");
}

/// Whether each merge comes after those that make its parts: then merge_order is of no account.
bool in_order_of_training(const std::vector<bpe_merge>& merges) {
  std::unordered_map<std::int32_t, std::size_t> made;  // tokens, and the last merge that makes one
  for (std::size_t rank = 0; rank < merges.size(); ++rank)
    made[merges[rank].result] = rank;
  for (std::size_t rank = 0; rank < merges.size(); ++rank)
    for (const auto part : {merges[rank].left, merges[rank].right})
      if (const auto by = made.find(part); by != made.end() && by->second >= rank)
        return false;
  return true;
}

bool does_as_gpt2(const part& file, const tokenizer_json& x) {
  const auto pre = file.at("pre_tokenizer");
  const auto& added = x.added;
  return in_order_of_training(x.vocabulary.merges) && x.normal.empty() && x.whole_words.empty()
         && pre.type() == "ByteLevel" && !pre.flag("add_prefix_space", true)
         && pre.flag("use_regex", true)
         && (added.empty()
             || (added.size() == 1 && added.front().content == end_of_document_text
                 && added.front().special && !added.front().lstrip && !added.front().rstrip
                 && !added.front().single_word));
}

/// How deep brackets stand in brackets, those within strings apart.
int depth_of(std::string_view text) {
  int depth = 0, deepest = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string && c == '\\')
      ++i;
    else if (c == '"')
      in_string = !in_string;
    else if (!in_string && (c == '[' || c == '{'))
      deepest = std::max(deepest, ++depth);
    else if (!in_string && (c == ']' || c == '}'))
      --depth;
  }
  return deepest;
}

json parsed(const std::filesystem::path& file) {
  try {
    const auto text = read_text(file);
    if (depth_of(text) > deepest_json)  // what walks over it calls itself
      throw input_error(
          "cannot use '{}': its brackets are more than {} deep", file.string(), deepest_json);
    return json_value(text);
  } catch (const json::exception& failure) {
    throw input_error("cannot read '{}': it is not JSON: {}; was it downloaded whole?",
                      file.string(),
                      failure.what());
  }
}

}  // namespace

tokenizer_json load_tokenizer_json(const std::filesystem::path& path) {
  const auto content = parsed(path);
  const part file{content, fmt::format("cannot use '{}'", path.string())};
  tokenizer_json out;
  read_model(file.at("model"), out);
  if (const auto added = file.maybe("added_tokens"))
    read_added(*added, file.at("model").at("vocab").value.size(), out);
  std::vector<normalizer::step> steps;
  if (const auto normal = file.maybe("normalizer"))
    add_normalizer(*normal, steps);
  out.normal = normalizer(steps);
  const auto pre = file.at("pre_tokenizer");
  if (!add_rules(pre, out.rules))
    pre.refuse("it does not end with ByteLevel: a BPE on characters is not supported");
  require_byte_level_decoder(file.at("decoder"));
  out.as_gpt2 = does_as_gpt2(file, out);
  out.configuration = configuration_of(out, steps);
  return out;
}

std::optional<std::string> named_end_of_document(const std::filesystem::path& file) {
  for (const auto* name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    const auto beside = file.parent_path() / name;
    std::error_code failure;
    if (!std::filesystem::exists(beside, failure))
      continue;
    const auto content = parsed(beside);
    const part all{content, fmt::format("cannot use '{}'", beside.string())};
    if (const auto end = all.maybe("eos_token"))
      return end->value.is_object() ? end->at("content").text() : end->text();
  }
  return std::nullopt;
}

}  // namespace troupe::runtime
