// Worlds of NCCL: ranks meet by id or split.

#include "tests/emulator/nccl.hpp"
#include "tests/emulator/settings.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <random>
#include <set>

namespace troupe::emulator {
namespace {

struct shared_state {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, std::shared_ptr<nccl_world>> waiting;  ///< incomplete worlds
  std::map<std::string, std::shared_ptr<nccl_segment>> made;   ///< ids that no rank has joined here
};

// Never destroyed: streams still work while the process ends.
shared_state& shared() {
  static auto* const is = new shared_state;
  return *is;
}

/// The name of its memory, which follows the last space.
std::string place_in(const std::string& id) {
  return std::string(id.c_str()).substr(id.rfind(' ') + 1);
}

/// Sets the states of a complete world's members. NCCL supports one rank per device.
void complete(nccl_world& world) {
  std::set<int> devices;
  for (const auto& [rank, member] : world.members)
    devices.insert(number_on_machine(member->device));
  for (int rank = 0; world.spans && rank < world.size; ++rank)
    devices.insert(world.segment->device(rank));
  for (const auto& [rank, member] : world.members) {
    if (int(devices.size()) < world.size)
      fail(*member, ncclInvalidUsage, "two ranks of a communicator are on one device");
    else if (member->state == ncclInProgress)
      member->state = ncclSuccess;
  }
  nccl_lock::wake();
}

}  // namespace

nccl_lock::nccl_lock() : held(shared().mutex) {}

void nccl_lock::wait(const std::function<bool()>& condition) {
  // Other processes cannot wake a thread here.
  while (!shared().changed.wait_for(held, std::chrono::milliseconds(1), condition))
    continue;
}

void nccl_lock::wake() {
  shared().changed.notify_all();
}

void fail(nccl_member& member, ncclResult_t error, const std::string& text) {
  say("NCCL: " + text);
  member.last_error = text;
  member.state = error;
  nccl_lock::wake();
}

std::string make_id() {
  static std::uint64_t made = 0;
  std::string place;
  auto segment = nccl_segment::create(place);
  if (!segment)
    return "";
  const nccl_lock lock;
  char number[64] = {};
  std::snprintf(number,
                sizeof number,
                "%llu-%08x ",
                static_cast<unsigned long long>(++made),
                std::random_device()());
  ncclUniqueId id = {};
  const auto text = nccl_seal + std::string(number) + place;
  std::copy_n(text.data(), std::min(text.size(), sizeof id.internal - 1), id.internal);
  const std::string out(id.internal, sizeof id.internal);
  shared().made[out] = std::move(segment);
  return out;
}

ncclResult_t join(const std::string& id, int size, int rank, const nccl_member_pointer& as) {
  const nccl_lock lock;
  auto& world = shared().waiting[id];
  if (!world) {
    auto made = shared().made.extract(id);
    world = std::make_shared<nccl_world>(
        nccl_world{size, made ? made.mapped() : nccl_segment::open(place_in(id))});
  }
  if (!world->segment) {
    shared().waiting.erase(id);
    fail(*as, ncclSystemError, "the process that made the id is gone");
    return ncclSystemError;
  }
  if (world->size != size || size > nccl_segment::most_ranks
      || !world->segment->announce(rank, number_on_machine(as->device))) {
    fail(*as,
         ncclInvalidUsage,
         "rank " + std::to_string(rank) + " of " + std::to_string(size) + " joined a world of "
             + std::to_string(world->size) + ", or joined twice");
    return ncclInvalidUsage;
  }
  as->rank = rank;
  as->world = world;
  world->members[rank] = as;
  if (int(world->members.size()) == size) {
    complete(*world);
    shared().waiting.erase(id);
  }
  return ncclSuccess;
}

void look(nccl_member& member) {
  auto* const world = member.world.get();
  if (world == nullptr || member.state != ncclInProgress || !world->segment || world->spans
      || int(world->members.size()) == world->size || world->segment->announced() < world->size)
    return;
  world->spans = true;
  complete(*world);
  std::erase_if(shared().waiting, [world](const auto& x) { return x.second.get() == world; });
}

void join_split(const nccl_member_pointer& parent, int color, int key, nccl_member_pointer child) {
  const nccl_lock lock;
  auto& world = *parent->world;
  const std::uint64_t number = parent->splits++;
  auto& all = world.splits[number];
  all[parent->rank] = {color, key, std::move(child)};
  if (int(all.size()) < world.size)
    return;
  std::map<int, std::vector<std::pair<int, nccl_member_pointer>>> by_color;
  for (const auto& [rank, one] : all)  // ascending: ranks of equal keys keep their order
    if (one.color != NCCL_SPLIT_NOCOLOR)
      by_color[one.color].emplace_back(one.key, one.child);
  for (auto& [one_color, members] : by_color) {
    std::stable_sort(members.begin(), members.end(), [](const auto& a, const auto& b) {
      return a.first < b.first;
    });
    auto made = std::make_shared<nccl_world>(nccl_world{int(members.size())});
    for (int rank = 0; rank < made->size; ++rank) {
      const auto& member = members[std::size_t(rank)].second;
      member->rank = rank;
      member->world = made;
      made->members[rank] = member;
    }
    complete(*made);
  }
  world.splits.erase(number);
  nccl_lock::wake();
}

}  // namespace troupe::emulator
