#include "runtime/model/liveness.hpp"

#include "runtime/core/error.hpp"

#include <algorithm>
#include <span>

namespace troupe::runtime {
namespace {

/// What a unit reads and writes.
struct uses {
  std::vector<std::string> streams, inputs;  ///< read
  std::string written;                       ///< a stream; empty: none
};

bool has(const std::vector<std::string>& all, std::string_view name) {
  return std::find(all.begin(), all.end(), name) != all.end();
}

void add_new(std::vector<std::string>& to, const std::vector<std::string>& from) {
  for (const auto& name : from)
    if (!has(to, name))
      to.push_back(name);
}

/// What a unit reads of the rows of streams: positions, samples, and the documents that limit
/// attention.
std::vector<std::string> of_rows(const model_spec& model, const std::vector<std::string>& streams) {
  std::vector<std::string> out, borders;
  for (const auto& name : streams) {
    const auto& stream = model.stream_of(name);
    add_new(out, {stream.positions});
    if (auto borders_of = documents_of(stream); !borders_of.empty())
      add_new(borders, {std::move(borders_of)});
  }
  out.emplace_back("samples");
  if (!borders.empty())
    borders.emplace_back("document_samples");
  add_new(out, borders);
  return out;
}

std::vector<uses> uses_of(const model_spec& model) {
  std::vector<uses> out;
  for (const auto& unit : model.units) {
    const auto traits = unit.module.traits();
    auto& x = out.emplace_back();
    if (traits.takes_stream)
      x.streams.push_back(unit.stream);
    if (traits.gives_stream)
      x.written = unit.stream;
    for (const auto& name : traits.reads) {
      const bool of_model = std::any_of(model.streams.begin(),
                                        model.streams.end(),
                                        [&](const auto& stream) { return stream.name == name; });
      (of_model ? x.streams : x.inputs).push_back(name);
    }
    auto used = x.streams;
    used.insert(used.begin(), unit.stream);
    add_new(x.inputs, of_rows(model, used));
  }
  return out;
}

bool reads(std::span<const uses> units, std::string_view input) {
  return std::any_of(
      units.begin(), units.end(), [&](const uses& x) { return has(x.inputs, input); });
}

/// True if the next unit that uses the stream reads it.
bool is_awaited(std::span<const uses> units, const std::string& stream) {
  for (const auto& x : units) {
    if (has(x.streams, stream))
      return true;
    if (x.written == stream)
      return false;
  }
  return false;
}

model_cut cut_at(const model_spec& model, std::span<const uses> all, std::size_t unit) {
  const auto before = all.first(unit), after = all.subspan(unit);
  model_cut out;
  for (const auto& stream : model.streams) {
    const auto writes = [&](const uses& x) { return x.written == stream.name; };
    if (std::any_of(before.begin(), before.end(), writes) && is_awaited(after, stream.name))
      out.streams.push_back(stream.name);
  }
  for (const auto& x : before)
    for (const auto& name : x.inputs)
      if (!has(out.inputs, name) && reads(after, name))
        out.inputs.push_back(name);
  return out;
}

}  // namespace

chunk_range all_of(const model_spec& model) {
  return {0, std::int64_t(model.units.size())};
}

std::vector<model_cut> cuts_of(const model_spec& model) {
  const auto all = uses_of(model);
  std::vector<model_cut> out;
  for (std::size_t unit = 0; unit <= all.size(); ++unit)
    out.push_back(cut_at(model, all, unit));
  return out;
}

chunk_flow flow_of(const model_spec& model, const chunk_range& range) {
  ensure(
      0 <= range.first && range.first <= range.end && range.end <= std::int64_t(model.units.size()),
      "MODEL-4: a chunk is a range of its model's units");
  const auto all = uses_of(model);
  const auto first = std::size_t(range.first), end = std::size_t(range.end);
  chunk_flow out{
      .batch = {}, .before = cut_at(model, all, first), .after = cut_at(model, all, end)};
  for (auto u = first; u < end; ++u)
    add_new(out.batch, all[u].inputs);
  std::erase_if(out.batch,
                [&](const auto& name) { return reads(std::span(all).first(first), name); });
  return out;
}

}  // namespace troupe::runtime
