#include "runtime/data/indexed_dataset_builder.hpp"

#include "runtime/core/error.hpp"
#include "runtime/data/indexed_format.hpp"

#include <algorithm>
#include <limits>

namespace troupe::runtime {
namespace {

std::int64_t checked_vocabulary(std::int64_t vocabulary) {
  if (vocabulary < 1 || vocabulary > std::numeric_limits<std::int32_t>::max())
    throw input_error(
        "cannot write a data set for a vocabulary of {} ids: it must have between 1 and 2147483647",
        vocabulary);
  return vocabulary;
}

template <class T>
void put(file_writer& out, const T& value) {
  out.write(&value, sizeof value);
}

}  // namespace

indexed_dataset_builder::indexed_dataset_builder(std::filesystem::path prefix,
                                                 std::int64_t vocabulary)
    : prefix_(std::move(prefix)),
      vocabulary_(checked_vocabulary(vocabulary)),
      type_(token_type_for(vocabulary_)),
      bin_(bin_path(prefix_)) {}

void indexed_dataset_builder::add_sequence(std::span<const std::int32_t> tokens) {
  if (tokens.size() > std::size_t(std::numeric_limits<std::int32_t>::max()))
    throw input_error(
        "cannot write '{}': its sequence {} has {} tokens, the maximum is 2147483647; split the "
        "text "
        "into smaller documents",
        bin_path(prefix_).string(),
        lengths_.size(),
        tokens.size());
  for (const auto id : tokens)
    if (id < 0 || id >= vocabulary_)
      throw input_error(
          "cannot write '{}': the tokenizer gave id {} in sequence {}, but its vocabulary has {} "
          "ids; give the vocabulary that belongs to the tokenizer",
          bin_path(prefix_).string(),
          id,
          lengths_.size(),
          vocabulary_);

  if (type_ == token_type::u16) {
    narrow_.assign(tokens.begin(), tokens.end());
    bin_.write(narrow_.data(), narrow_.size() * sizeof(std::uint16_t));
  } else {
    bin_.write(tokens.data(), tokens.size() * sizeof(std::int32_t));
  }
  lengths_.push_back(static_cast<std::int32_t>(tokens.size()));
  tokens_ += static_cast<std::int64_t>(tokens.size());
}

void indexed_dataset_builder::end_document() {
  documents_.push_back(sequences());
}

void indexed_dataset_builder::write_index(file_writer& idx) const {
  idx.write(indexed_format::magic.data(), indexed_format::magic.size());
  put(idx, indexed_format::version);
  put(idx, type_);
  put(idx, std::uint64_t{lengths_.size()});
  put(idx, std::uint64_t{documents_.size()});
  idx.write(lengths_.data(), lengths_.size() * sizeof(std::int32_t));
  std::int64_t pointer = 0;
  for (const auto length : lengths_) {
    put(idx, pointer);
    pointer += length * static_cast<std::int64_t>(size_of(type_));
  }
  idx.write(documents_.data(), documents_.size() * sizeof(std::int64_t));
}

void indexed_dataset_builder::finish(const std::optional<dataset_manifest>& made_by) {
  ensure(documents_.back() == sequences(), "BUILDER-1: every sequence is in an ended document");
  file_writer idx(idx_path(prefix_));
  write_index(idx);

  std::error_code failure;
  std::filesystem::remove(idx_path(prefix_), failure);
  if (failure)
    throw io_error("cannot replace '{}': {}", idx_path(prefix_).string(), failure.message());
  write_manifest(prefix_, made_by);
  bin_.commit();
  idx.commit();
}

}  // namespace troupe::runtime
