#include "actors/job/start.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/file.hpp"

#include <nlohmann/json.hpp>
#include <set>

namespace troupe::actors {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

fs::path resolved(const fs::path& folder) {
  std::error_code failure;
  const auto out = fs::weakly_canonical(folder, failure);
  // "dir/" has an empty last name
  return out.has_filename() ? out : out.parent_path();
}

/// The newest iteration in a folder; nothing when it has none or cannot be listed.
std::optional<std::int64_t> newest_in(const fs::path& folder) {
  std::optional<std::int64_t> out;
  std::error_code failure;
  for (fs::directory_iterator at(folder, failure), end; !failure && at != end;
       at.increment(failure))
    out = std::max(out, runtime::iteration_of_folder(at->path().filename().string()));
  return out;
}

bool is_checkpoint(const fs::path& folder) {
  std::error_code failure;
  return fs::exists(folder / "manifest.json", failure);
}

void require_own_folder(const runtime::checkpoint_settings& where) {
  if (where.save.empty())
    return;
  const auto save = resolved(where.save);
  if (!where.load.empty()
      && (resolved(where.load) == save || resolved(where.load).parent_path() == save))
    return;
  if (const auto newest = newest_in(save))
    throw runtime::input_error(
        "cannot save into '{0}': it holds iteration {1} of another run; add --load {0} to go on "
        "with it, or choose another folder",
        where.save.string(),
        *newest);
}

/// Fields of a model that decide neither its parameters nor its function.
json essence(const runtime::gpt_config& model) {
  auto out = json::parse(runtime::to_json(model));
  for (const auto* field :
       {"hidden_dropout", "attention_dropout", "init_std", "sequence", "padded_vocabulary"})
    out.erase(field);
  if (model.position != runtime::position_embedding::learned_absolute)
    out.erase("positions");
  return out;
}

}  // namespace

runtime::found_checkpoint find_start(const runtime::training_job& job) {
  const auto& where = job.checkpoints;
  require_own_folder(where);
  if (where.load.empty())
    return {};
  if (is_checkpoint(where.load)) {
    runtime::open_checkpoint(where.load);
    return {where.load, {}};
  }
  auto found = runtime::latest_checkpoint(where.load);
  if (!found.folder && resolved(where.load) != resolved(where.save))
    throw runtime::input_error(
        "cannot go on from --load '{}': it has neither a manifest.json, as a checkpoint has, nor "
        "iter_* folders, as the --save folder of a run has; correct it, or leave --load out to "
        "start from iteration 0",
        where.load.string());
  return found;
}

std::string differences(const std::string& there, const std::string& here) {
  const auto a = json::parse(there).flatten(), b = json::parse(here).flatten();
  std::set<std::string> names;
  for (const auto* x : {&a, &b})
    for (const auto& [name, value] : x->items())
      names.insert(name);
  const auto shown = [](const json& x, const std::string& name) {
    const auto found = x.find(name);
    return found == x.end() ? std::string("nothing")
                            : found->dump(-1, ' ', true, json::error_handler_t::replace);
  };
  std::string out;
  for (const auto& name : names)
    if (const auto x = shown(a, name), y = shown(b, name); x != y)
      out += fmt::format("\n  {}: {} there, {} here", name.substr(1), x, y);
  return out;
}

void check_model(const runtime::checkpoint_reader& from, const runtime::training_job& job) {
  const auto wrong
      = differences(essence(from.manifest().model).dump(), essence(job.how.model).dump());
  if (!wrong.empty())
    throw runtime::input_error(
        "cannot go on from '{}': it is a checkpoint of another model.{}\n"
        "Give the flags it was trained with, or another --load",
        from.folder().string(),
        wrong);
}

void cut_log(const fs::path& log, std::uint64_t iteration) {
  std::error_code failure;
  if (!fs::is_regular_file(log, failure))
    return;
  const auto text = runtime::read_text(log);
  std::string kept;
  std::string_view rest = text;
  for (auto end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
    const auto line = rest.substr(0, end + 1);
    rest.remove_prefix(line.size());
    const auto record = json::parse(line, nullptr, false);
    const auto at = record.is_object() ? record.find("iteration") : record.end();
    if (!record.is_object() || at == record.end() || !at->is_number_unsigned()
        || at->get<std::uint64_t>() <= iteration)
      kept += line;
  }
  if (kept.size() != text.size())
    runtime::write_text(log, kept);
}

}  // namespace troupe::actors
