#include "runtime/hub/hub_download.hpp"

#include "runtime/core/counted.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/progress.hpp"
#include "runtime/file/file.hpp"
#include "runtime/hub/hub_cache.hpp"
#include "runtime/hub/hub_listing.hpp"
#include "runtime/hub/hub_transfer.hpp"
#include "runtime/object/object_url.hpp"

#include <optional>
#include <string_view>
#include <vector>

namespace troupe::runtime {
namespace {

namespace fs = std::filesystem;

/// A revision as one segment of a path.
std::string segment(std::string_view revision) {
  auto out = percent_encoded(revision);
  for (auto at = out.find('/'); at != std::string::npos; at = out.find('/'))
    out.replace(at, 1, "%2F");
  return out;
}

void require_space(const fs::path& folder, std::uint64_t bytes) {
  std::error_code failure;
  const auto space = fs::space(folder, failure);
  if (!failure && space.available < bytes)
    throw io_error(
        "cannot download to '{}': {} are needed, and {} are free; free some space, or set "
        "HF_HUB_CACHE to a folder on another disk",
        folder.string(),
        human_bytes(double(bytes)),
        human_bytes(double(space.available)));
}

class download {
 public:
  download(const hub_name& name, hub_files files, const hub_service& service, const hub_notes& note)
      : name_(name),
        files_(files),
        service_(service),
        note_(note),
        cache_(service.cache, name.repository) {}

  fs::path folder() {
    const auto known = cache_.commit_of(name_.revision);
    if (known && is_hub_commit(name_.revision) && has_everything(cache_, *known, files_))
      return cache_.snapshot(*known);
    const bool usable = known && has_required(cache_, *known, files_);
    if (service_.offline && usable)
      return cache_.snapshot(*known);
    if (service_.offline)
      throw input_error(
          "'{}' is not in the cache '{}', and HF_HUB_OFFLINE forbids the download: unset "
          "HF_HUB_OFFLINE, or download it on another machine",
          to_string(name_),
          service_.cache.string());
    transfer_.emplace(name_, cache_, service_);
    const auto said = transfer_->model(fmt::format("/api/models/{}/revision/{}",
                                                   percent_encoded(name_.repository),
                                                   segment(name_.revision)),
                                       usable);
    if (said.status == 200 && said.failure.empty())
      return download_listed(parse_hub_listing(said.body, service_.endpoint));
    note_(fmt::format("cannot ask {} for '{}' ({}): using commit {} of the cache",
                      service_.endpoint,
                      to_string(name_),
                      said.failure.empty() ? fmt::format("HTTP {}", said.status) : said.failure,
                      *known));
    return cache_.snapshot(*known);
  }

 private:
  fs::path download_listed(const hub_listing& listing) {
    require_needed(listing, name_, files_);
    const auto& commit = listing.commit;
    auto wanted = further_templates_in(listing);
    for (const auto& file : hub_small_files())
      if (listing.files.contains(file))
        wanted.push_back(file);
      else
        cache_.remember_absence(commit, file);
    if (files_ == hub_files::model)
      for (const auto& file : weights(listing))
        wanted.push_back(file);
    fetch(commit, wanted);
    cache_.remember(name_.revision, commit);
    return cache_.snapshot(commit);
  }

  /// Downloads the index, if there is one, and returns the files with tensors.
  std::vector<std::string> weights(const hub_listing& listing) {
    if (listing.files.contains(hub_weights))
      return {hub_weights};
    if (!cache_.has(listing.commit, hub_index))
      transfer_->fetch(
          listing.commit, transfer_->about(listing.commit, hub_index), note_, [](std::uint64_t) {});
    const auto file = cache_.snapshot(listing.commit) / hub_index;
    const auto shards = shards_in(read_text(file), file.string());
    return {shards.begin(), shards.end()};
  }

  void fetch(const std::string& commit, const std::vector<std::string>& wanted) {
    std::vector<hub_file> missing;
    std::uint64_t total = 0, done = 0;
    for (const auto& name : wanted)
      if (!cache_.has(commit, name)) {
        missing.push_back(transfer_->about(commit, name));
        total += missing.back().size;
        done += transfer_->received(missing.back());
      }
    if (missing.empty())
      return;
    make_folder(cache_.folder());
    require_space(cache_.folder(), total - done);
    note_(fmt::format("downloading '{}', commit {}: {}, {}{}, to '{}'",
                      to_string(name_),
                      commit,
                      counted(std::int64_t(missing.size()), "file"),
                      human_bytes(double(total)),
                      done > 0
                          ? fmt::format(" of which {} are in the cache", human_bytes(double(done)))
                          : std::string(),
                      cache_.folder().string()));
    progress_bar bar(name_.repository, total, "B", done);
    std::uint64_t before = 0;  // bytes of complete files
    for (const auto& file : missing) {
      transfer_->fetch(
          commit, file, note_, [&](std::uint64_t bytes) { bar.advance_to(before + bytes); });
      before += file.size;
    }
  }

  const hub_name& name_;
  hub_files files_;
  const hub_service& service_;
  const hub_notes& note_;
  hub_cache cache_;
  std::optional<hub_transfer> transfer_;
};

}  // namespace

fs::path hub_folder(const hub_name& name,
                    hub_files files,
                    const hub_service& service,
                    const hub_notes& note) {
  return download(name, files, service, note).folder();
}

hub_name pinned(const hub_name& name, const hub_service& service) {
  auto out = name;
  if (const auto commit = hub_cache(service.cache, name.repository).commit_of(name.revision))
    out.revision = *commit;
  return out;
}

}  // namespace troupe::runtime
