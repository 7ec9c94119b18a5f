// Drives saves: checkpoints, and the states that keepers hold and write to local disks.

#pragma once

#include "actors/supervisor/save_schedule.hpp"
#include "actors/supervisor/supervised_run.hpp"
#include "runtime/layout/process_tree.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace troupe::actors {

class save_driver : supervisor_part {
 public:
  explicit save_driver(supervisor_parts& all);

  void receive(const messages::saved& x);
  void receive(const messages::save_failed& x);
  void receive(const messages::save_again& x);
  void receive(const messages::abandoned& x);
  void receive(const messages::kept& x);

  // Checkpoints (save_driver.cpp).

  /// `last`: no other step follows.
  bool is_due(bool last) const { return schedule_.is_due(run_.at.iteration, last); }
  /// Makes that step due; false: it is saved or being saved.
  bool ask(std::uint64_t iteration) { return schedule_.ask(iteration); }
  void change_interval(std::uint64_t x) { schedule_.change_interval(x); }
  bool is_writing() const { return schedule_.is_writing(); }
  bool is_abandoning() const { return abandoning_.has_value(); }
  bool waits_to_retry() const { return waits_to_retry_; }  ///< until save_again
  void begin_save();
  void abandon();
  void lose_checkpointer();
  /// Why the newest step is not in a checkpoint; empty: it is, or none was tried.
  std::string unsaved() const {
    return schedule_.is_saved(run_.at.iteration) ? std::string() : unsaved_;
  }

  // Kept states, and local disks (storing.cpp).

  /// All of this step's states stand with their keepers, or none are kept.
  bool is_kept(std::uint64_t step) const;
  /// Kept states are written to local disks after this step.
  bool is_stored(std::uint64_t step) const {
    const auto interval = run_.job->job.checkpoints.local_interval;
    return run_.keeps() && interval > 0 && step > 0 && step % interval == 0;
  }
  /// If the newest step is kept: tells the membership, and stores it if it is due. Returns whether
  /// it is kept.
  bool note_kept();
  void forget_kept();
  std::vector<std::string> keepers_waited_for() const;

 private:
  void show(const char* state, std::uint64_t iteration, const std::string& why = {}) const;
  void note(const std::vector<messages::keeper_disk>& disks);
  void store_if_due();
  std::uint64_t stored_by_all() const;
  void leave_out(int process, std::uint64_t step);

  save_schedule schedule_;
  std::uint64_t attempt_ = 0;  ///< number of the newest save
  std::uint64_t saving_ = 0;   ///< iteration of the newest save
  std::uint64_t began_ns_ = 0;
  bool waits_to_retry_ = false;  ///< until save_again
  std::string unsaved_;          ///< why the newest save failed; empty: it did not
  /// Generation of the save that the checkpointer must abandon; set until it answers.
  std::optional<runtime::generation_id> abandoning_;
  std::vector<int> top_;                      ///< processes that report kept states
  std::map<int, runtime::step_id> kept_by_;   ///< newest report of each, in this generation
  std::vector<messages::keeper_disk> disks_;  ///< of each process's keeper, if disks are written
  struct store_request {
    messages::keeper_actor keeper = {};
    runtime::step_id step = {};
  };
  std::vector<store_request> store_told_;  ///< the newest one of each process
  std::uint64_t told_to_store_ = 0;        ///< in this generation
  std::uint64_t on_all_disks_ = 0;         ///< newest step known to be on all disks; 0: none
  int left_out_ = 0;                       ///< consecutive due steps that were not written to disks
  std::uint64_t newest_left_out_ = 0;
};

}  // namespace troupe::actors
