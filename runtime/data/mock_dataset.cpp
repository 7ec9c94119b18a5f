#include "runtime/data/mock_dataset.hpp"

#include "runtime/core/error.hpp"
#include "runtime/data/numpy_random.hpp"

namespace troupe::runtime {

mock_dataset::mock_dataset(std::int64_t vocabulary, std::int32_t end_of_document)
    : vocabulary_(vocabulary), end_of_document_(end_of_document), lengths_(100'000) {
  if (end_of_document < 0 || end_of_document >= vocabulary)
    throw input_error(
        "cannot make mock data: the end-of-document id {} is outside the vocabulary of {} ids",
        end_of_document,
        vocabulary);
  numpy_generator draw(0);
  for (auto& length : lengths_)
    length = draw.integer32(1, 4096);
}

std::int32_t mock_dataset::length(std::int64_t sequence) const {
  ensure(sequence >= 0 && sequence < sequences(), "SOURCE-1: only sequences that exist are read");
  return lengths_[static_cast<std::size_t>(sequence)];
}

void mock_dataset::get(std::int64_t sequence,
                       std::int64_t offset,
                       std::span<std::int32_t> out) const {
  const std::int64_t all = length(sequence);
  ensure(offset >= 0 && offset <= all && out.size() <= std::size_t(all - offset),
         "SOURCE-1: only tokens that exist are read");
  for (auto& token : out) {
    ++offset;
    token = offset == all ? end_of_document_ : static_cast<std::int32_t>(offset % vocabulary_);
  }
}

std::string mock_dataset::place(std::int64_t sequence) const {
  return fmt::format("the mock data, sequence {}", sequence);
}

}  // namespace troupe::runtime
