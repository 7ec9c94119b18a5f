#include "runtime/tokenizer/pipeline_tokenizer.hpp"

#include "runtime/core/error.hpp"
#include "runtime/tokenizer/bpe_tokenizer.hpp"
#include "runtime/tokenizer/byte_alphabet.hpp"
#include "runtime/tokenizer/pre_tokenizer.hpp"
#include "runtime/tokenizer/tokenizer_json.hpp"

#include <algorithm>
#include <functional>
#include <utility>

namespace troupe::runtime {
namespace {

constexpr const char* file_name = "tokenizer.json";

/// Returns the added tokens that are searched in the normalized text or in the raw text. In the
/// former case their contents are normalized too.
added_tokens part_of(const tokenizer_parts& parts, bool normalized) {
  const normalizer normal(parts.normal);
  std::vector<added_token> out;
  for (auto one : parts.added)
    if (one.normalized == normalized) {
      if (normalized)
        one.content = normal.apply(one.content);
      out.push_back(std::move(one));
    }
  return added_tokens(std::move(out));
}

/// Rejects added tokens that are equal or empty after normalization: the library's choice between
/// them depends on its internal order.
void require_distinct(const tokenizer_parts& parts) {
  if (parts.normal.empty())
    return;
  const normalizer normal(parts.normal);
  std::unordered_map<std::string, std::string> seen;
  for (const auto& one : parts.added) {
    if (!one.normalized)
      continue;
    const auto content = normal.apply(one.content);
    if (content.empty())
      throw input_error("the added token \"{}\" is empty after normalization", one.content);
    if (const auto [before, fresh] = seen.emplace(content, one.content); !fresh)
      throw input_error("the added tokens \"{}\" and \"{}\" are equal after normalization",
                        before->second,
                        one.content);
  }
}

digest fingerprint_of_all(const tokenizer_parts& parts) {
  if (does_as_gpt2(parts))
    return fingerprint_of(parts.vocabulary);
  digester all;
  all.add(fmt::format("HuggingFaceTokenizer {}\n", configuration_of(parts)));
  all.add(to_string(fingerprint_of(parts.vocabulary)));
  return all.result();
}

std::int32_t id_of(const std::string& token, const tokenizer_parts& parts) {
  for (const auto& one : parts.added)
    if (one.content == token)
      return one.id;
  const auto& tokens = parts.vocabulary.tokens;
  const auto found = std::find(tokens.begin(), tokens.end(), token);
  if (token.empty() || found == tokens.end())
    throw input_error("its vocabulary has no token \"{}\" to end documents", token);
  return std::int32_t(found - tokens.begin());
}

tokenizer_parts with_end(tokenizer_parts parts, const std::optional<std::string>& end) {
  parts.vocabulary.end_of_document = end ? id_of(*end, parts) : -1;
  return parts;
}

struct model_maker {
  const tokenizer_parts& parts;

  using made = std::unique_ptr<const subword_model>;

  made operator()(const byte_bpe_parts& x) const {
    std::unordered_map<std::string, std::int32_t> whole;
    for (const auto id : x.whole_words)
      whole.emplace(to_bytes(parts.vocabulary.tokens[std::size_t(id)]).value(), id);
    return std::make_unique<byte_bpe>(
        parts.vocabulary.merges, parts.vocabulary.byte_ids, x.order, std::move(whole));
  }
  made operator()(const piece_bpe_settings& x) const {
    return std::make_unique<piece_bpe>(parts.vocabulary.merges, parts.own, x);
  }
  made operator()(const unigram_settings& x) const {
    const auto& tokens = parts.vocabulary.tokens;
    return std::make_unique<unigram>(
        std::vector(tokens.begin(), tokens.begin() + std::ptrdiff_t(x.scores.size())), x);
  }
  made operator()(const word_piece_settings& x) const {
    return std::make_unique<word_piece>(parts.own, x);
  }
  made operator()(const word_level_parts& x) const {
    return std::make_unique<word_level>(parts.own, x.unknown);
  }
};

bool has_characters_of_bytes(const tokenizer_parts& parts) {
  return std::any_of(parts.rules.begin(), parts.rules.end(), [](const auto& one) {
    return std::holds_alternative<bytes_to_characters>(one);
  });
}

/// Decodes an added token to its own content. Only if the normalizer maps bytes to characters does
/// its normalized content represent bytes.
std::string decoded(const tokenizer_parts& parts,
                    const normalizer& normal,
                    const added_token& one) {
  if (!one.normalized || normal.empty())
    return one.content;
  auto text = normal.apply(one.content);
  const bool of_bytes = std::any_of(parts.normal.begin(), parts.normal.end(), [](const auto& x) {
    return std::holds_alternative<bytes_as_characters>(x);
  });
  return of_bytes ? to_bytes(text).value_or(text) : text;
}

}  // namespace

/// State of one call of append.
struct pipeline_tokenizer::call {
  const pipeline_tokenizer& by;
  std::vector<std::int32_t>& ids;
  bool with_special;
  subword_worker& worker;
  word_splitter::worker words;
  const char* front;  ///< begin of the whole text

  call(const pipeline_tokenizer& t,
       std::vector<std::int32_t>& to,
       bool special,
       subword_worker& w,
       const char* begin)
      : by(t), ids(to), with_special(special), worker(w), words(t.cut_), front(begin) {}

  const std::function<void(std::int32_t)> token = [this](std::int32_t id) { ids.push_back(id); };
  const std::function<void(std::string_view)> word
      = [this](std::string_view text) { by.model_->append(text, ids, worker); };

  void normalized(std::string_view text, bool first) {
    if (by.after_.empty())
      return words.split(text, first, word);
    by.after_.split(
        text,
        with_special,
        [&](std::string_view x) { words.split(x, first && x.data() == text.data(), word); },
        token);
  }
  void between_tokens(std::string_view text) {
    const bool first = text.data() == front;
    if (by.normal_.empty())
      return normalized(text, first);
    normalized(by.normal_.apply(text), first);
  }
  void valid(std::string_view text) {
    if (by.before_.empty())
      return between_tokens(text);
    by.before_.split(
        text, with_special, [this](std::string_view x) { between_tokens(x); }, token);
  }
};

pipeline_tokenizer::pipeline_tokenizer(tokenizer_parts parts,
                                       const std::optional<std::string>& end,
                                       std::string kind)
    : parts_(with_end(std::move(parts), end)),
      kind_(std::move(kind)),
      fingerprint_(fingerprint_of_all(parts_)),
      words_(std::holds_alternative<byte_bpe_parts>(parts_.model) ? words::bytes
             : has_characters_of_bytes(parts_)                    ? words::characters_of_bytes
                                                                  : words::texts),
      normal_(parts_.normal),
      before_(part_of(parts_, false)),
      after_(part_of(parts_, true)),
      cut_(parts_.rules),
      model_(std::visit(model_maker{parts_}, parts_.model)),
      decoder_(parts_.decoding) {
  require_distinct(parts_);
  for (const auto& token : parts_.vocabulary.tokens)
    texts_.push_back(decoder_.by_token() ? to_bytes(token).value_or(token) : token);
  special_.resize(texts_.size());
  for (const auto& one : parts_.added) {
    special_[std::size_t(one.id)] = one.special;
    texts_[std::size_t(one.id)] = decoded(parts_, normal_, one);
  }
}

void pipeline_tokenizer::append(std::string_view text,
                                std::vector<std::int32_t>& ids,
                                special_tokens specials) const {
  std::string replaced;
  if (words_ == words::texts && valid_utf8_prefix(text) < text.size()) {
    replaced = with_replacements(text);
    text = replaced;
  }
  const auto worker = workers_.take([this] { return model_->make_worker(); });
  call all(*this, ids, specials == special_tokens::recognised, *worker, text.data());
  while (!text.empty()) {
    const auto size = valid_utf8_prefix(text);
    if (size > 0)
      all.valid(text.substr(0, size));
    text.remove_prefix(size);
    if (!text.empty()) {
      const auto byte = text.substr(0, 1);
      model_->append(
          words_ == words::bytes ? byte : character_of(std::uint8_t(byte.front())), ids, *worker);
      text.remove_prefix(1);
    }
  }
}

std::int32_t pipeline_tokenizer::end_of_document() const {
  if (!names_end_of_document())
    throw input_error(
        "no file names the token that ends a document: the tokenizer.json has no \"{}\", and there "
        "is no tokenizer_config.json with an \"eos_token\" beside it; add one",
        end_of_document_text);
  return parts_.vocabulary.end_of_document;
}

bool pipeline_tokenizer::is_special(std::int32_t id) const {
  return id == parts_.vocabulary.end_of_document
         || (id >= 0 && std::size_t(id) < special_.size() && special_[std::size_t(id)]);
}

std::optional<digest> pipeline_tokenizer::fingerprint_before_adding(std::int32_t first) const {
  const auto is_new = [first](std::int32_t id) { return id >= first; };
  if (is_new(parts_.vocabulary.end_of_document) || first >= vocabulary_size()
      || std::any_of(parts_.own.begin(), parts_.own.end(), [&](const auto& token) {
           return is_new(token.second);
         }))
    return std::nullopt;
  auto parts = parts_;
  std::erase_if(parts.added, [&](const auto& one) { return is_new(one.id); });
  parts.vocabulary.tokens.resize(std::size_t(first));
  return fingerprint_of_all(parts);
}

std::string pipeline_tokenizer::decode(std::span<const std::int32_t> ids) const {
  if (decoder_.by_token())
    return joined(ids, texts_);
  std::vector<std::string> tokens;
  for (const auto id : ids) {
    auto token = joined(std::span(&id, 1), texts_);
    if (!token.empty())
      tokens.push_back(std::move(token));
  }
  return decoder_.decode(std::move(tokens));
}

std::filesystem::path tokenizer_json_in(const std::filesystem::path& file_or_folder) {
  std::error_code failure;
  return std::filesystem::is_directory(file_or_folder, failure) ? file_or_folder / file_name
                                                                : file_or_folder;
}

std::unique_ptr<const tokenizer> make_json_tokenizer(const std::filesystem::path& file_or_folder) {
  const auto path = tokenizer_json_in(file_or_folder);
  auto parts = load_tokenizer_json(path);
  auto end = named_end_of_document(path);
  if (!end) {
    const auto& added = parts.added;
    if (std::ranges::any_of(added, [](const auto& x) { return x.content == end_of_document_text; }))
      end = end_of_document_text;
  }
  try {
    return std::make_unique<pipeline_tokenizer>(std::move(parts), end);
  } catch (const input_error& failure) {
    throw input_error("cannot use '{}': {}", path.string(), failure.what());
  }
}

}  // namespace troupe::runtime
