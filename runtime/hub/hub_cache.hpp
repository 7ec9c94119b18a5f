// The folder of one model in the local cache, in the layout of huggingface_hub:
//
//   models--ORG--NAME/refs/REVISION           the commit of a branch or tag
//   models--ORG--NAME/snapshots/COMMIT/FILE   a link to a blob
//   models--ORG--NAME/blobs/ETAG              the bytes; ETAG.incomplete while they are downloaded
//   models--ORG--NAME/.no_exist/COMMIT/FILE   an empty file: the commit has no such file
//   .locks/models--ORG--NAME/ETAG.lock        held during a download

#pragma once

#include "runtime/hub/hub_name.hpp"

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace troupe::runtime {

class hub_cache {
 public:
  hub_cache(std::filesystem::path cache, const std::string& repository);

  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path snapshot(const std::string& commit) const;
  std::filesystem::path blob(const std::string& etag) const;
  std::filesystem::path part(const std::string& etag) const;  ///< the incomplete blob

  /// The last known commit of a branch or tag, or the revision if it is a commit.
  std::optional<std::string> commit_of(const std::string& revision) const;
  void remember(const std::string& revision, const std::string& commit) const;

  bool has(const std::string& commit, const std::string& file) const;
  bool lacks(const std::string& commit, const std::string& file) const;  ///< known not to exist
  void remember_absence(const std::string& commit, const std::string& file) const;

  /// Makes the complete blob visible as `file` of the commit, as a link; as the blob itself where
  /// the file system has no links. Keeps a file that is there: another process may read it.
  void link(const std::string& commit, const std::string& file, const std::string& etag) const;

  /// Calls `work` while no other process downloads this blob. `waiting` is called once if one does.
  void alone(const std::string& etag,
             const std::function<void()>& waiting,
             const std::function<void()>& work) const;

 private:
  std::filesystem::path cache_, folder_;
};

}  // namespace troupe::runtime
