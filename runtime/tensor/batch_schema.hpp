// The tensors of a data set's samples, by name, and micro-batches of them.
//
// A micro-batch of B samples is a bundle:
//
//   * a tensor (B, extents of one sample ...) for each tensor of the schema;
//   * "samples" (B) u64: sample numbers within the run;
//   * if the schema limits attention to documents, their borders, whose number differs:
//     "documents" (D + 1) i32, the first of the B * T rows of each document, then B * T, and
//     "document_samples" (D) u64, the sample of each document;
//   * the borders of these documents in tensors of other lengths (batch_schema::more_documents),
//     such as "encoder_documents" (D + 1) i32. A document may have no rows there.

#pragma once

#include "runtime/tensor/tensor.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe::runtime {

struct tensor_schema {
  std::string name;
  dtype type = dtype::f32;
  shape extents;  ///< of one sample
  /// The axis of `extents` that counts positions, along which a sample may be divided among ranks;
  /// -1: none.
  int rows = -1;

  friend bool operator==(const tensor_schema&, const tensor_schema&) = default;
};

struct batch_schema {
  std::vector<tensor_schema> tensors;
  /// The tensor whose rows attention divides into documents; empty: attention is not limited.
  std::string documents_of = {};
  /// Borders of the same documents in other tensors: "..._documents", and the tensor. Each sample
  /// has as many cuts there as in `documents_of`.
  std::vector<std::pair<std::string, std::string>> more_documents = {};

  const tensor_schema* find(std::string_view name) const;  ///< null: it has none
  /// True if the micro-batches have a tensor of this name.
  bool gives(std::string_view name) const;
  /// The tensors whose rows documents divide, by the names of their borders; empty: not limited.
  std::vector<std::pair<std::string, std::string>> borders() const;
  /// T: the rows of this tensor in one sample. Breaks SCHEMA-1 if it has none.
  std::int64_t rows_of(std::string_view name) const;

  friend bool operator==(const batch_schema&, const batch_schema&) = default;
};

/// True for "documents", "document_samples" and "..._documents". A model asks for them, but does
/// not need them.
bool is_document_border(std::string_view name);

/// "'tokens', 'labels'", for messages.
std::string names_of(const bundle& x);
std::string names_of(const batch_schema& x);

/// Allocates a tensor's memory in a micro-batch.
using batch_memory = std::function<memory_block(const std::string& name, std::size_t bytes)>;

/// B samples without borders of documents; elements are undefined.
bundle empty_batch(const batch_schema& schema, std::int64_t B, const batch_memory& memory);
bundle empty_batch(const batch_schema& schema, std::int64_t B, memory_pool& pool);

/// Rows at which attention restarts in a sample, by the names of borders.
using document_cuts = std::map<std::string, std::vector<std::int32_t>, std::less<>>;

/// One sample of a micro-batch in host memory, to be filled. The micro-batch must outlive it.
class sample_view {
 public:
  /// `cuts`: gets the rows at which attention restarts, ascending, above 0; null: they are dropped.
  /// With batch_schema::more_documents a cut may repeat or follow the last row, so that a document
  /// has no rows.
  sample_view(const bundle& batch, std::int64_t b, document_cuts* cuts = nullptr)
      : batch_(batch), b_(b), cuts_(cuts) {}

  /// The elements of this sample. Breaks BUNDLE-1 and TENSOR-1 if the micro-batch has no such
  /// tensor of this type.
  template <class T>
  std::span<T> at(std::string_view name) const {
    auto x = batch_.at(name);
    const auto each = x.size() / x.extents()[0];
    return {x.template data<T>() + b_ * each, std::size_t(each)};
  }
  void cut(std::int64_t row, std::string_view borders = "documents") const {
    if (cuts_ != nullptr)
      (*cuts_)[std::string(borders)].push_back(std::int32_t(row));
  }

 private:
  const bundle& batch_;
  std::int64_t b_;
  document_cuts* cuts_;
};

}  // namespace troupe::runtime
