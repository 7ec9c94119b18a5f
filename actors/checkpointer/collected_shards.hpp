// The shards of one checkpoint that the processes of a run write, each those of its ranks: who is
// to write what, who has answered, and when the manifest may be written. No actor and no thread.
//
//   SHARDS-1  The manifest is made when each process has said that its shards are durable.
//   SHARDS-2  What is acknowledged of a file is each shard that it was to have.
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
  /// Files are numbered in the order of the ranks that have given a snapshot.
  collected_shards(const messages::save& order,
                   std::map<int, messages::snapshot> given,
                   const runtime::process_map& placed);

  /// What each process is to write; folder and checkpointer are the caller's to fill in.
  std::map<int, messages::write_shards> orders() const;

  /// False: not of this attempt, or of nobody who is awaited.
  bool take(const messages::shards_written& x);
  bool take(const messages::shards_refused& x);
  /// Who was to write is dead. False: it was not awaited.
  bool lose(int process);

  const messages::save& order() const { return order_; }
  int awaited() const;  ///< processes that have not answered
  bool is_refused() const { return refused_; }
  /// Of a disk; empty: none refused, but what was to be written is gone with its generation, or
  /// who was to write it.
  const std::string& why() const { return why_; }
  bool has_lost() const { return lost_; }  ///< somebody who was to write
  /// In the order of their files. Throws broken_promise, SHARDS-1.
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
