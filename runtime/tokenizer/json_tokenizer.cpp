#include "runtime/tokenizer/json_tokenizer.hpp"

#include "runtime/core/error.hpp"
#include "runtime/tokenizer/bpe_tokenizer.hpp"
#include "runtime/tokenizer/byte_alphabet.hpp"
#include "runtime/tokenizer/pre_tokenizer.hpp"

#include <algorithm>
#include <utility>

namespace troupe::runtime {
namespace {

constexpr const char* file_name = "tokenizer.json";

/// Those that are found in the text as it is, or in the normalized one, whose contents are
/// normalized as well.
added_tokens part_of(const tokenizer_json& file, bool normalized) {
  std::vector<added_token> out;
  for (auto one : file.added)
    if (one.normalized == normalized) {
      if (normalized)
        one.content = file.normal.apply(one.content);
      out.push_back(std::move(one));
    }
  return added_tokens(std::move(out));
}

digest fingerprint_of_all(const tokenizer_json& file) {
  if (file.as_gpt2)
    return fingerprint_of(file.vocabulary);
  digester all;
  all.add(fmt::format("{} {}\n", json_tokenizer::type_name, file.configuration));
  all.add(to_string(fingerprint_of(file.vocabulary)));
  return all.result();
}

std::int32_t id_of(const std::string& token, const tokenizer_json& file) {
  for (const auto& one : file.added)
    if (one.content == token)
      return one.id;
  const auto& tokens = file.vocabulary.tokens;
  const auto found = std::find(tokens.begin(), tokens.end(), token);
  if (token.empty() || found == tokens.end())
    throw input_error("its vocabulary has no token \"{}\", which is to end documents", token);
  return std::int32_t(found - tokens.begin());
}

tokenizer_json with_end(tokenizer_json file, const std::string& end) {
  file.vocabulary.end_of_document = id_of(end, file);
  return file;
}

}  // namespace

/// What one call of append needs.
struct json_tokenizer::call {
  const json_tokenizer& by;
  std::vector<std::int32_t>& ids;
  bool with_special;
  bpe_worker& worker;
  word_splitter::worker words;

  call(const json_tokenizer& t, std::vector<std::int32_t>& to, bool special, bpe_worker& w)
      : by(t), ids(to), with_special(special), worker(w), words(t.cut_) {}

  const std::function<void(std::int32_t)> token = [this](std::int32_t id) { ids.push_back(id); };
  const std::function<void(std::string_view)> word = [this](std::string_view text) {
    if (!by.whole_.empty())
      if (const auto found = by.whole_.find(text); found != by.whole_.end())
        return ids.push_back(found->second);
    by.merger_.append(text, ids, worker);
  };

  void normalized(std::string_view text) {
    if (by.after_.empty())
      return words.split(text, word);
    by.after_.split(
        text, with_special, [this](std::string_view x) { words.split(x, word); }, token);
  }
  void between_tokens(std::string_view text) {
    if (by.file_.normal.empty())
      return normalized(text);
    normalized(by.file_.normal.apply(text));
  }
  void valid(std::string_view text) {
    if (by.before_.empty())
      return between_tokens(text);
    by.before_.split(
        text, with_special, [this](std::string_view x) { between_tokens(x); }, token);
  }
};

json_tokenizer::json_tokenizer(tokenizer_json file, const std::string& end)
    : file_(with_end(std::move(file), end)),
      fingerprint_(fingerprint_of_all(file_)),
      before_(part_of(file_, false)),
      after_(part_of(file_, true)),
      cut_(file_.rules),
      merger_(file_.vocabulary.merges, file_.vocabulary.byte_ids, merge_order::one_by_one) {
  for (const auto& token : file_.vocabulary.tokens)
    bytes_.push_back(to_bytes(token).value_or(token));
  for (const auto id : file_.whole_words)
    whole_.emplace(bytes_[std::size_t(id)], id);
}

void json_tokenizer::append(std::string_view text,
                            std::vector<std::int32_t>& ids,
                            special_tokens specials) const {
  auto worker = workers_.take();
  call all(*this, ids, specials == special_tokens::recognised, *worker);
  while (!text.empty()) {
    const auto size = valid_utf8_prefix(text);
    if (size > 0)
      all.valid(text.substr(0, size));
    text.remove_prefix(size);
    if (!text.empty()) {
      merger_.append(text.substr(0, 1), ids, *worker);
      text.remove_prefix(1);
    }
  }
  workers_.give_back(std::move(worker));
}

std::string json_tokenizer::decode(std::span<const std::int32_t> ids) const {
  return joined(ids, bytes_);
}

std::filesystem::path tokenizer_json_in(const std::filesystem::path& file_or_folder) {
  std::error_code failure;
  return std::filesystem::is_directory(file_or_folder, failure) ? file_or_folder / file_name
                                                                : file_or_folder;
}

std::unique_ptr<const tokenizer> make_json_tokenizer(const std::filesystem::path& file_or_folder) {
  const auto path = tokenizer_json_in(file_or_folder);
  auto file = load_tokenizer_json(path);
  auto end = named_end_of_document(path);
  if (!end) {
    const auto& added = file.added;
    if (std::none_of(added.begin(), added.end(), [](const auto& x) {
          return x.content == end_of_document_text;
        }))
      throw input_error(
          "cannot use '{}': nothing says which token ends a document; put the "
          "tokenizer_config.json with its \"eos_token\" beside it",
          path.string());
    end = end_of_document_text;
  }
  try {
    return std::make_unique<json_tokenizer>(std::move(file), *end);
  } catch (const input_error& failure) {
    throw input_error("cannot use '{}': {}", path.string(), failure.what());
  }
}

}  // namespace troupe::runtime
