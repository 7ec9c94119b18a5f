#include "runtime/collective/nccl_group.hpp"

#include "kernels/backend/plugin.hpp"
#include "runtime/collective/nccl_rank.hpp"
#include "runtime/core/error.hpp"

#include <fmt/format.h>

namespace troupe::runtime {

std::string nccl_version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

void require_nccl(int version) {
  if (version < oldest_nccl)
    throw kernels::backend_missing(fmt::format(
        "NCCL {} is too old: {} or later is needed; install a newer libnccl2, or let the dynamic "
        "linker find one first (LD_LIBRARY_PATH)",
        nccl_version_text(version),
        nccl_version_text(oldest_nccl)));
}

nccl_library& open_nccl() {
  static nccl_library& library = []() -> nccl_library& {
    const auto& found = kernels::plugin::open("nccl");
    if (!found)
      throw kernels::backend_missing("NCCL is not available: " + found.reason());
    auto& out = *found.function<nccl_library*()>("troupe_nccl_library")();
    require_nccl(out.version());
    return out;
  }();
  return library;
}

void nccl_meeting::give(const std::string& group, std::uint64_t generation, const nccl_id& id) {
  const std::lock_guard lock(mutex_);
  const auto at = ids_.emplace(std::pair(group, generation), id).first;
  ensure(at->second == id, "COLLECTIVE-6: a group of a generation has one id");
}

nccl_id nccl_meeting::made(const std::string& group, std::uint64_t generation) {
  const std::lock_guard lock(mutex_);
  const std::pair key(group, generation);
  auto found = ids_.find(key);
  if (found == ids_.end())
    found = ids_.emplace(key, open_nccl().make_id()).first;
  return found->second;
}

std::optional<nccl_id> nccl_meeting::find(const std::string& group,
                                          std::uint64_t generation) const {
  const std::lock_guard lock(mutex_);
  const auto found = ids_.find({group, generation});
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

nccl_groups::nccl_groups(cancel_token generation,
                         std::uint64_t number,
                         collective_mode mode,
                         std::shared_ptr<nccl_meeting> ids,
                         std::int64_t scratch)
    : token_(std::move(generation)),
      number_(number),
      mode_(mode),
      ids_(std::move(ids)),
      scratch_(scratch),
      watch_(std::make_shared<nccl_watch>()) {}

nccl_groups::~nccl_groups() = default;

void nccl_groups::lose(int process, const std::string& why) {
  std::map<std::string, std::shared_ptr<nccl_group>> groups;
  {
    const std::lock_guard lock(mutex_);
    lost_.emplace(process, why);
    groups = groups_;
  }
  for (const auto& [name, group] : groups)
    group->lose(process, why);
}

std::unique_ptr<nccl_communicator> make_nccl_communicator(nccl_groups& of,
                                                          const nccl_member& member) {
  open_nccl();
  require_device(member.device);
  std::shared_ptr<nccl_group> group;
  std::map<int, std::string> lost;
  {
    const std::lock_guard lock(of.mutex_);
    auto& found = of.groups_[member.group];
    if (found == nullptr)
      found = std::make_shared<nccl_group>(
          member, nccl_terms{of.token_, of.number_, of.mode_, of.ids_, of.scratch_, of.watch_});
    group = found;
    lost = of.lost_;
  }
  for (const auto& [process, why] : lost)
    group->lose(process, why);
  group->take(member);
  return std::make_unique<nccl_rank>(std::move(group), member.rank, member.device);
}

}  // namespace troupe::runtime
