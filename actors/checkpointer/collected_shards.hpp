// The shards of one checkpoint, written by several processes: which process writes which shards,
// which have answered, and when the manifest may be written. It uses no actor and no thread.
//
//   SHARDS-1  The manifest is made when each process has reported its shards as durable.
//   SHARDS-2  The acknowledgement of a file covers exactly its requested shards.
//
// An acknowledgement of another attempt to save changes nothing.

#pragma once

#include "messages/checkpoint/snapshot.hpp"
#include "runtime/checkpoint/manifest.hpp"
#include "runtime/layout/process_map.hpp"

#include <map>
#include <string>
#include <vector>

namespace troupe::actors {

class collected_shards {
 public:
  /// Numbers the files in the order of the ranks that gave a snapshot.
  collected_shards(const messages::save& order,
                   std::map<int, messages::snapshot> given,
                   const runtime::process_map& placed);

  /// The order for each process; the caller fills in folder and checkpointer.
  std::map<int, messages::write_shards> orders() const;

  /// Returns false for another attempt, or for a process that is not awaited.
  bool take(const messages::shards_written& x);
  bool take(const messages::shards_refused& x);
  /// The writer of that process is dead. Returns false when it was not awaited.
  bool lose(int process);

  const messages::save& order() const { return order_; }
  int awaited() const;  ///< processes that have not answered
  bool is_refused() const { return refused_; }
  /// Reason of a disk's refusal. Empty when no disk refused: the generation or a writer is gone.
  const std::string& why() const { return why_; }
  bool has_lost() const { return lost_; }  ///< a writer died
  /// In the order of the files. Throws broken_promise (SHARDS-1).
  std::vector<runtime::shard_record> records() const;

 private:
  enum class answer : std::uint8_t { awaited, written, refused };
  struct part {
    int number = 0;
    messages::snapshot given;
    int process = 0;
    messages::written_part written;
  };
  template <class Answer>
  bool is_awaited(const Answer& x) const;
  void refuse(int process, const std::string& why);

  messages::save order_;
  std::vector<part> parts_;
  std::map<int, answer> answers_;
  bool refused_ = false, lost_ = false;
  std::string why_;
};

}  // namespace troupe::actors
