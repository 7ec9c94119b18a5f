// Operations of NCCL on the streams of the ranks.

#include "tests/emulator/memory.hpp"
#include "tests/emulator/nccl.hpp"

#include <algorithm>
#include <cstring>

namespace troupe::emulator {
namespace {

constexpr const char* disagreement
    = "the ranks disagree on a collective: its kind, count, type or root";

struct withdrawn {};  ///< thrown when the rank's communicator was aborted

const void* moved(const void* from, std::size_t bytes) {
  return static_cast<const std::byte*>(from) + bytes;
}

/// The addends of chunk c in ring order: descending ranks, starting at rank c.
std::vector<const void*> ring(const nccl_meeting& at, int chunk, std::size_t offset) {
  const int size = int(at.arrived.size());
  std::vector<const void*> inputs;
  for (int hop = 0; hop < size; ++hop)
    inputs.push_back(moved(at.arrived.at((chunk + size - hop) % size).from, offset));
  return inputs;
}

using bytes = std::vector<std::byte>;

bytes sum_of_chunks(const nccl_operation& is, const nccl_meeting& at) {
  const std::size_t width = bytes_of(is.type), size = at.arrived.size();
  bytes out(is.count * width);
  for (std::size_t c = 0; c < size; ++c) {
    const std::size_t begin = is.count * c / size, end = is.count * (c + 1) / size;
    sum(ring(at, int(c), begin * width), end - begin, is.type, &out[begin * width]);
  }
  return out;
}

/// The output of a rank, computed from the inputs of all ranks.
bytes result(const nccl_operation& is, int rank, const nccl_meeting& at) {
  const std::size_t all = is.count * bytes_of(is.type);
  bytes out(is.kind == nccl_kind::all_gather ? all * at.arrived.size() : all);
  switch (is.kind) {
    case nccl_kind::all_reduce:
      return sum_of_chunks(is, at);
    case nccl_kind::reduce:
      return rank == is.peer ? sum_of_chunks(is, at) : bytes{};
    case nccl_kind::reduce_scatter:
      sum(ring(at, rank, std::size_t(rank) * all), is.count, is.type, out.data());
      break;
    case nccl_kind::all_gather:
      for (const auto& [from, other] : at.arrived)
        std::memcpy(&out[std::size_t(from) * all], other.from, all);
      break;
    default:
      std::memcpy(out.data(), at.arrived.at(is.peer).from, all);
      break;
  }
  return out;
}

bool same(const nccl_operation& a, const nccl_operation& b) {
  const bool rooted = a.kind == nccl_kind::reduce || a.kind == nccl_kind::broadcast;
  return a.kind == b.kind && a.count == b.count && a.type == b.type
         && (!rooted || a.peer == b.peer);
}

void meet(nccl_lock& lock, nccl_member& self, const nccl_operation& is) {
  auto& world = *self.world;
  auto& at = world.meetings[is.number];
  at.arrived[self.rank] = is;
  nccl_lock::wake();
  const auto all = [&] { return int(at.arrived.size()) == world.size && !at.broken; };
  lock.wait([&] { return all() || self.aborted; });
  if (!all()) {
    at.broken = true;
    throw withdrawn{};
  }
  const bool agreed
      = std::ranges::all_of(at.arrived, [&](const auto& other) { return same(is, other.second); });
  if (!agreed) {
    fail(self, ncclInvalidUsage, disagreement);
    lock.wait([&] { return self.aborted; });
    throw withdrawn{};
  }
  ++at.reading;
  lock.held.unlock();
  bytes out;
  {
    const memory_access access;
    out = result(is, self.rank, at);
  }
  lock.held.lock();
  --at.reading;
  ++at.have_read;
  nccl_lock::wake();
  lock.wait([&] { return at.have_read == world.size || (self.aborted && at.reading == 0); });
  if (at.have_read != world.size) {
    at.broken = true;
    throw withdrawn{};
  }
  lock.held.unlock();
  if (!out.empty()) {
    const memory_access access;
    std::memcpy(is.to, out.data(), out.size());
  }
  lock.held.lock();
  if (++at.have_left == world.size)
    world.meetings.erase(is.number);
}

void receive(nccl_lock& lock, nccl_member& self, const nccl_operation& is) {
  auto& queue = self.world->messages[{is.peer, self.rank}];
  lock.wait([&] { return !queue.empty() || self.aborted; });
  if (self.aborted)
    throw withdrawn{};
  const auto message = queue.front();
  queue.pop_front();
  const std::size_t wanted = is.count * bytes_of(is.type);
  if (message->bytes != wanted)
    fail(self,
         ncclInvalidUsage,
         "rank " + std::to_string(is.peer) + " sends " + std::to_string(message->bytes)
             + " bytes to rank " + std::to_string(self.rank) + ", which expects "
             + std::to_string(wanted));
  message->is = nccl_message::taken;
  lock.held.unlock();
  {
    const memory_access access;
    std::memcpy(is.to, message->from, std::min(wanted, message->bytes));
  }
  lock.held.lock();
  message->is = nccl_message::read;
  nccl_lock::wake();
}

/// Waits until all messages were read. On an abort, withdraws those that no rank has begun to read.
void wait_for(nccl_lock& lock,
              nccl_member& self,
              const std::vector<std::pair<int, std::shared_ptr<nccl_message>>>& sent) {
  for (const auto& [peer, message] : sent) {
    lock.wait([&, &one = message] {
      return one->is == nccl_message::read || (self.aborted && one->is == nccl_message::posted);
    });
    if (message->is == nccl_message::posted)
      std::erase(self.world->messages[{self.rank, peer}], message);
  }
}

}  // namespace

namespace {

using message = nccl_segment::message;

std::vector<std::byte> copied(const void* from, std::size_t bytes) {
  std::vector<std::byte> out(bytes);
  const memory_access access;
  if (bytes > 0)
    std::memcpy(out.data(), from, bytes);
  return out;
}

nccl_header head_of(const nccl_operation& is) {
  return {int(is.kind), int(is.type), is.peer, is.count};
}

/// A collective of ranks in several processes: each gets the inputs of all and computes its output.
/// False if the communicator was aborted.
bool meet_between(nccl_member& self, const nccl_operation& is, const std::function<bool()>& ended) {
  auto& world = *self.world;
  const auto all = is.count * bytes_of(is.type);
  const bool is_silent = is.kind == nccl_kind::broadcast && self.rank != is.peer;
  const auto input = is.kind == nccl_kind::reduce_scatter ? all * std::size_t(world.size)
                     : is_silent                          ? 0
                                                          : all;
  const auto mine = copied(is.from, input);
  std::vector<message> out, in;
  for (int r = 0; r < world.size; ++r)
    if (r != self.rank) {
      out.push_back({.peer = r, .head = head_of(is), .bytes = mine});
      in.push_back({.peer = r});
    }
  if (!world.segment->exchange(self.rank, out, in, ended))
    return false;
  nccl_meeting at;
  at.arrived[self.rank] = is;
  at.arrived[self.rank].from = mine.data();
  bool agreed = true;
  for (const auto& x : in) {
    const nccl_operation other{.kind = nccl_kind(x.head.kind),
                               .from = x.bytes.data(),
                               .count = x.head.count,
                               .type = ncclDataType_t(x.head.type),
                               .peer = x.head.peer};
    agreed = agreed && same(is, other);
    at.arrived[x.peer] = other;
  }
  if (!agreed) {
    nccl_lock lock;
    fail(self, ncclInvalidUsage, disagreement);
    lock.wait([&] { return self.aborted; });
    return false;
  }
  const auto sum = result(is, self.rank, at);
  const memory_access access;
  if (!sum.empty())
    std::memcpy(is.to, sum.data(), sum.size());
  return true;
}

bool pass_between(nccl_member& self,
                  const std::vector<nccl_operation>& bundle,
                  const std::function<bool()>& ended) {
  std::vector<message> out, in;
  std::vector<nccl_operation> receives;
  for (const auto& one : bundle)
    if (one.kind == nccl_kind::send) {
      out.push_back({.peer = one.peer,
                     .head = head_of(one),
                     .bytes = copied(one.from, one.count * bytes_of(one.type))});
    } else if (one.kind == nccl_kind::receive) {
      in.push_back({.peer = one.peer});
      receives.push_back(one);
    }
  if (!self.world->segment->exchange(self.rank, out, in, ended))
    return false;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const auto wanted = receives[i].count * bytes_of(receives[i].type);
    if (in[i].bytes.size() != wanted) {
      const nccl_lock lock;
      fail(self, ncclInvalidUsage, "a rank sends other bytes than its peer expects");
    }
    const memory_access access;
    std::memcpy(receives[i].to, in[i].bytes.data(), std::min(wanted, in[i].bytes.size()));
  }
  return true;
}

void carry_out_between(nccl_member& self,
                       const std::vector<nccl_operation>& bundle,
                       std::uint64_t number) {
  {
    nccl_lock lock;
    lock.wait([&] { return self.finished == number || self.aborted; });
  }
  const auto ended = [&self] {
    const nccl_lock lock;
    return self.aborted;
  };
  for (const auto& one : bundle)
    if (one.kind != nccl_kind::send && one.kind != nccl_kind::receive
        && !meet_between(self, one, ended))
      return;
  pass_between(self, bundle, ended);
}

}  // namespace

void carry_out(const nccl_member_pointer& by,
               const std::vector<nccl_operation>& bundle,
               std::uint64_t number) {
  if (by->world->spans)
    return carry_out_between(*by, bundle, number);
  nccl_lock lock;
  std::vector<std::pair<int, std::shared_ptr<nccl_message>>> sent;
  // Posts all sends before any wait, so that a group cannot block itself.
  for (const auto& one : bundle)
    if (one.kind == nccl_kind::send && !by->aborted) {
      sent.emplace_back(
          one.peer,
          std::make_shared<nccl_message>(nccl_message{one.from, one.count * bytes_of(one.type)}));
      by->world->messages[{by->rank, one.peer}].push_back(sent.back().second);
    }
  nccl_lock::wake();
  try {
    for (const auto& one : bundle)
      if (one.kind != nccl_kind::send && one.kind != nccl_kind::receive)
        meet(lock, *by, one);
    for (const auto& one : bundle)
      if (one.kind == nccl_kind::receive)
        receive(lock, *by, one);
  } catch (const withdrawn&) {
  }
  wait_for(lock, *by, sent);
}

}  // namespace troupe::emulator
