#include "runtime/core/hash.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/data/conversation_files.hpp"
#include "runtime/data/indexed_dataset.hpp"
#include "runtime/family/family_samples.hpp"
#include "runtime/family/model_family.hpp"
#include "runtime/file/file.hpp"
#include "runtime/job/job_data.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace troupe::runtime {
namespace {

using nlohmann::json;

json identity_of_set(const std::filesystem::path& prefix, const object_access& objects) {
  const mapped_file index = open_index(idx_path(prefix), objects);
  json out = {{"index_xxh3", to_string(digester().add(index.text()).result())}};
  index.require_intact();
  out["bytes"] = open_bytes(bin_path(prefix), objects)->size();
  return out;
}

std::string digest_of(const byte_source& x) {
  constexpr std::uint64_t piece = 1 << 20;
  digester out;
  std::vector<std::byte> scratch;
  for (std::uint64_t at = 0; at < x.size(); at += piece) {
    const auto bytes = x.bytes(at, std::size_t(std::min(piece, x.size() - at)), scratch);
    out.add(bytes.data(), bytes.size());
  }
  x.require_intact();
  return to_string(out.result());
}

/// With `sft` also digests the answers: conversations of equal lengths may have different answers.
json identity_of_set(const std::filesystem::path& prefix, bool sft, const object_access& objects) {
  auto out = identity_of_set(prefix, objects);
  if (sft)
    out["answers_xxh3"] = digest_of(*open_bytes(bin_path(answers_prefix(prefix)), objects));
  return out;
}

json identity_of_blend(const data_blend& x, bool sft, const object_access& objects) {
  auto out = json::array();
  for (std::size_t d = 0; d < x.prefixes.size(); ++d) {
    out.push_back(identity_of_set(x.prefixes[d], sft, objects));
    if (!x.weights.empty())
      out.back()["weight"] = x.weights[d];
  }
  return out;
}

/// Older runs keep their identity: a `.later()` row is left out with its default.
json identity_of(const fim_settings& x) {
  json out;
  for_each_field<fim_settings>([&](const auto& row) {
    const auto& now = x.*row.member;
    if (!row.optional || now != fim_settings().*row.member)
      out[row.key] = now;
  });
  return out;
}

}  // namespace

bool has_own_files(const training_job& job) {
  const auto& model = job.training.model;
  return !model.family().samples().files(model, data_split::train).empty();
}

std::string digest_of_files(const training_job& job) {
  const auto& model = job.training.model;
  digester out;
  for (const auto part : {data_split::train, data_split::valid})
    for (const auto& path : model.family().samples().files(model, part)) {
      const mapped_file file(path);
      const auto size = std::uint64_t(file.text().size());
      out.add(&size, sizeof size).add(file.text());
      file.require_intact();
    }
  return to_string(out.result());
}

std::string identity_of(const data_settings& x) {
  json out = {{"mock", x.mock},
              {"split", x.split},
              {"eod_mask_loss", x.eod_mask_loss},
              {"reset_position_ids", x.reset_position_ids}};
  if (x.order != sampling::single)
    out["order"] = to_string(x.order);
  if (x.reset_attention_mask)
    out["reset_attention_mask"] = true;
  if (x.sft)
    out["sft"] = true;
  if (x.fim.enabled)
    out["fim"] = identity_of(x.fim);
  if (x.path.is_single())
    out.update(identity_of_set(x.path.prefixes.front(), x.sft, objects_of(x)));
  else if (!x.path.empty())
    out["blend"] = identity_of_blend(x.path, x.sft, objects_of(x));
  if (!x.train_path.empty())
    out["train"] = identity_of_blend(x.train_path, x.sft, objects_of(x));
  return json_text(out);
}

}  // namespace troupe::runtime
