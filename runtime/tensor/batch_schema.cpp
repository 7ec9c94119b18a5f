#include "runtime/tensor/batch_schema.hpp"

#include <algorithm>

namespace troupe::runtime {
namespace {

constexpr std::string_view sample_numbers = "samples";

void add_quoted(std::string& to, std::string_view name) {
  to += (to.empty() ? "'" : ", '") + std::string(name) + "'";
}

}  // namespace

const tensor_schema* batch_schema::find(std::string_view name) const {
  const auto found = std::ranges::find(tensors, name, &tensor_schema::name);
  return found == tensors.end() ? nullptr : &*found;
}

bool batch_schema::gives(std::string_view name) const {
  return find(name) != nullptr || name == sample_numbers
         || (!documents_of.empty() && (name == "documents" || name == "document_samples"))
         || std::ranges::find(more_documents, name, [](const auto& x) { return x.first; })
                != more_documents.end();
}

std::vector<std::pair<std::string, std::string>> batch_schema::borders() const {
  std::vector<std::pair<std::string, std::string>> out;
  if (!documents_of.empty())
    out.emplace_back("documents", documents_of);
  out.insert(out.end(), more_documents.begin(), more_documents.end());
  return out;
}

std::int64_t batch_schema::rows_of(std::string_view name) const {
  const auto* const of = find(name);
  ensure(of != nullptr && of->rows >= 0 && of->rows < of->extents.rank(),
         "SCHEMA-1: rows are counted of a tensor that has them");
  return of->extents[of->rows];
}

bool is_document_border(std::string_view name) {
  return name == "documents" || name == "document_samples" || name.ends_with("_documents");
}

std::string names_of(const bundle& x) {
  std::string out;
  for (const auto& part : x)
    add_quoted(out, part.first);
  return out;
}

std::string names_of(const batch_schema& x) {
  std::string out;
  for (const auto& part : x.tensors)
    add_quoted(out, part.name);
  add_quoted(out, sample_numbers);
  return out;
}

bundle empty_batch(const batch_schema& schema, std::int64_t B, const batch_memory& memory) {
  bundle out;
  const auto add = [&](const std::string& name, dtype type, const shape& of_one) {
    shape extents{B};
    for (const auto extent : of_one)
      extents.push_back(extent);
    out.add(name, {memory(name, std::size_t(extents.size()) * size_of(type)), type, extents});
  };
  for (const auto& x : schema.tensors)
    add(x.name, x.type, x.extents);
  add(std::string(sample_numbers), dtype::u64, {});
  return out;
}

bundle empty_batch(const batch_schema& schema, std::int64_t B, memory_pool& pool) {
  return empty_batch(
      schema, B, [&](const std::string&, std::size_t bytes) { return pool.allocate(bytes); });
}

}  // namespace troupe::runtime
