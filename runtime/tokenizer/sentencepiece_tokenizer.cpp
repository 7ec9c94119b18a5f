#include "runtime/tokenizer/sentencepiece_tokenizer.hpp"

#include "runtime/core/error.hpp"
#include "runtime/file/file.hpp"
#include "runtime/tokenizer/pre_tokenizer.hpp"

#include <sentencepiece_processor.h>

namespace troupe::runtime {
namespace {

std::unique_ptr<const sentencepiece::SentencePieceProcessor> loaded(
    const std::filesystem::path& file, const std::string& content) {
  auto out = std::make_unique<sentencepiece::SentencePieceProcessor>();
  if (!out->LoadFromSerializedProto(content).ok())
    throw input_error(
        "cannot use '{}' as a model of SentencePiece: its library cannot read it; was it "
        "downloaded whole?",
        file.string());
  return out;
}

}  // namespace

sentencepiece_tokenizer::sentencepiece_tokenizer(const std::filesystem::path& model,
                                                 std::string kind)
    : kind_(std::move(kind)) {
  const auto content = read_text(model);
  library_ = loaded(model, content);
  digester all;
  all.add("SentencePieceTokenizer\n");
  all.add(content);
  fingerprint_ = all.result();
  size_ = library_->GetPieceSize();
  end_ = library_->eos_id();
  if (end_ < 0)
    throw input_error(
        "cannot use '{}' as a model of SentencePiece: it has no end-of-sentence symbol to end "
        "documents; train it with one",
        model.string());
  std::vector<added_token> controls;
  for (std::int32_t id = 0; id < size_; ++id)
    if (library_->IsControl(id))
      controls.push_back({.id = id, .content = library_->IdToPiece(id), .special = true});
  controls_ = std::make_unique<added_tokens>(std::move(controls));
}

sentencepiece_tokenizer::~sentencepiece_tokenizer() = default;

void sentencepiece_tokenizer::append_text(std::string_view text,
                                          std::vector<std::int32_t>& ids) const {
  std::vector<int> found;
  if (const auto status = library_->Encode(text, &found); !status.ok())
    throw input_error(
        "SentencePiece cannot encode a text of {} bytes: {}", text.size(), status.ToString());
  ids.insert(ids.end(), found.begin(), found.end());
}

void sentencepiece_tokenizer::append(std::string_view text,
                                     std::vector<std::int32_t>& ids,
                                     special_tokens specials) const {
  if (specials == special_tokens::as_text)
    return append_text(text, ids);
  const auto with_specials = [&](std::string_view valid) {
    controls_->split(
        valid,
        true,
        [&](std::string_view between) { append_text(between, ids); },
        [&](std::int32_t id) { ids.push_back(id); });
  };
  if (valid_utf8_prefix(text) < text.size())
    return with_specials(with_replacements(text));
  with_specials(text);
}

bool sentencepiece_tokenizer::is_special(std::int32_t id) const {
  return id >= 0 && id < size_ && library_->IsControl(id);
}

void sentencepiece_tokenizer::require_id(std::int32_t id) const {
  if (id < 0 || id >= size_)
    throw input_error("cannot decode id {}: the vocabulary ends at {}", id, size_ - 1);
}

std::string sentencepiece_tokenizer::token(std::int32_t id) const {
  require_id(id);
  return library_->IdToPiece(id);
}

std::string sentencepiece_tokenizer::piece(std::int32_t id,
                                           std::optional<std::int32_t> before) const {
  constexpr std::string_view space_mark = "\xE2\x96\x81";
  require_id(id);
  auto out = library_->IdToPiece(id);
  if (library_->IsByte(id))  // "<0x41>"; the library decodes a part of a character to U+FFFD
    return {static_cast<char>(std::stoi(out.substr(3, 2), nullptr, 16))};
  if (!before || library_->IsControl(id) || library_->IsUnknown(id))
    return tokenizer::piece(id, {});
  for (auto at = out.find(space_mark); at != out.npos; at = out.find(space_mark, at))
    out.replace(at, space_mark.size(), " ");
  return out;
}

std::string sentencepiece_tokenizer::decode(std::span<const std::int32_t> ids) const {
  for (const auto id : ids)
    require_id(id);
  std::string out;
  if (const auto status = library_->Decode(std::vector<int>(ids.begin(), ids.end()), &out);
      !status.ok())
    throw input_error("SentencePiece cannot decode {} ids: {}", ids.size(), status.ToString());
  return out;
}

}  // namespace troupe::runtime
