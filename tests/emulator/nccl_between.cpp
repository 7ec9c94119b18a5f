#include "tests/emulator/nccl_between.hpp"

#include "tests/emulator/device.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fcntl.h>
#include <set>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <thread>
#include <unistd.h>

namespace troupe::emulator {

namespace {

struct mailbox {
  std::atomic<std::uint64_t> posted, taken, withdrawn;  ///< numbers of messages
  nccl_header head;
  std::uint64_t at, bytes;
};

/// False if the sender is gone, or has freed the bytes.
bool read_memory(int pid, std::uint64_t at, std::vector<std::byte>& to) {
  for (std::size_t done = 0; done < to.size();) {
    const iovec here{&to[done], to.size() - done};
    const iovec there{reinterpret_cast<void*>(std::uintptr_t(at + done)), to.size() - done};
    const auto n = ::process_vm_readv(pid, &here, 1, &there, 1, 0);
    if (n <= 0)
      return false;
    done += std::size_t(n);
  }
  return true;
}

}  // namespace

struct nccl_segment::layout {
  struct {
    std::atomic<int> pid;
    int device;
  } ranks[most_ranks];
  std::atomic<int> announced;
  mailbox from_to[most_ranks][most_ranks];
};

namespace {

template <class Layout>
Layout* mapped(int file) {
  void* const at = ::mmap(nullptr, sizeof(Layout), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return at == MAP_FAILED ? nullptr : static_cast<Layout*>(at);
}

}  // namespace

std::shared_ptr<nccl_segment> nccl_segment::create(std::string& name) {
  ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  const int file = ::memfd_create("troupe emulated nccl", MFD_CLOEXEC);
  auto* const at
      = file >= 0 && ::ftruncate(file, sizeof(layout)) == 0 ? mapped<layout>(file) : nullptr;
  if (at == nullptr) {
    std::perror("emulated NCCL: cannot make shared memory");
    if (file >= 0)
      ::close(file);
    return nullptr;
  }
  name = "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(file);
  return std::shared_ptr<nccl_segment>(new nccl_segment(file, at));
}

std::shared_ptr<nccl_segment> nccl_segment::open(const std::string& name) {
  ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  const int file = ::open(name.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0)
    return nullptr;
  auto* const at = mapped<layout>(file);
  ::close(file);
  return at == nullptr ? nullptr : std::shared_ptr<nccl_segment>(new nccl_segment(-1, at));
}

nccl_segment::~nccl_segment() {
  ::munmap(at_, sizeof(layout));
  if (file_ >= 0)
    ::close(file_);
}

bool nccl_segment::announce(int rank, int device_on_machine) {
  auto& mine = at_->ranks[rank];
  if (mine.pid != 0)
    return false;
  mine.device = device_on_machine;
  mine.pid = ::getpid();
  ++at_->announced;
  return true;
}

int nccl_segment::announced() const {
  return at_->announced;
}

int nccl_segment::device(int rank) const {
  return at_->ranks[rank].device;
}

/// Posts the message when the mailbox is free. True once the peer has read it.
bool nccl_segment::post(int rank, message& x) {
  auto& box = at_->from_to[rank][x.peer];
  if (x.number == 0 && box.posted == box.taken) {
    box.head = x.head;
    box.at = std::uint64_t(reinterpret_cast<std::uintptr_t>(x.bytes.data()));
    box.bytes = x.bytes.size();
    x.number = box.posted + 1;
    box.posted = x.number;
  }
  return x.number != 0 && box.taken >= x.number;
}

/// A message that its sender has withdrawn is never taken.
bool nccl_segment::take(int rank, message& x) {
  auto& box = at_->from_to[x.peer][rank];
  const auto number = box.taken + 1;
  if (box.posted != number || box.withdrawn == number)
    return false;
  x.head = box.head;
  x.bytes.resize(box.bytes);
  if (!read_memory(at_->ranks[x.peer].pid, box.at, x.bytes) || box.withdrawn == number)
    return false;
  x.number = number;
  box.taken = number;
  return true;
}

bool nccl_segment::exchange(int rank,
                            std::vector<message>& out,
                            std::vector<message>& in,
                            const std::function<bool()>& ended) {
  using namespace std::chrono_literals;
  auto pause = 20us;
  // The first open message of each peer: later ones must wait for it.
  const auto advance = [](std::vector<message>& all, const auto& act) {
    bool moved = false;
    std::set<int> busy;
    for (auto& x : all) {
      if (x.done || busy.contains(x.peer))
        continue;
      x.done = act(x);
      moved = moved || x.done;
      if (!x.done)
        busy.insert(x.peer);
    }
    return moved;
  };
  const auto is_done
      = [](const std::vector<message>& all) { return std::ranges::all_of(all, &message::done); };
  for (;;) {
    const bool sent = advance(out, [&](message& x) { return post(rank, x); });
    const bool came = advance(in, [&](message& x) { return take(rank, x); });
    if (is_done(out) && is_done(in))
      return true;
    if (ended()) {
      for (const auto& x : out)
        if (x.number != 0 && !x.done)
          at_->from_to[rank][x.peer].withdrawn = x.number;
      return false;
    }
    if (sent || came) {
      pause = 20us;
      continue;
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, std::chrono::microseconds(500us));
  }
}

}  // namespace troupe::emulator
