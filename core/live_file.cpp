#include "core/live_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "core/spool_file.h"

namespace ddl {

namespace {

/// Magic numbers of statfs(2): NFS, SMB (three generations), Lustre, GPFS, BeeGFS, CephFS, AFS, FUSE (sshfs, Gluster
/// and others), OrangeFS, GFS2, OCFS2, 9p, PanFS.
constexpr uint32_t kSharedFileSystems[] = {0x6969,     0x517b,     0xff534d42, 0xfe534d42, 0x0bd00bd0,
                                           0x47504653, 0x19830326, 0x00c36400, 0x5346414f, 0x65735546,
                                           0x20030528, 0x01161970, 0x7461636f, 0x01021997, 0xaad7aaea};

bool is_shared(int fd) {
  struct statfs status;
  if (fstatfs(fd, &status) != 0) return false;
  for (const uint32_t magic : kSharedFileSystems) {
    if (static_cast<uint32_t>(status.f_type) == magic) return true;
  }
  return false;
}

/// fstat, as a system call: glibc before 2.33 has no symbol of that name.
bool status_of(int fd, struct stat* status) { return syscall(SYS_fstat, fd, status) == 0; }

}  // namespace

void LiveFile::begin(const char* spool_path, int spool_fd) {
  on_ = false;
  if (!is_shared(spool_fd)) return;
  const size_t length = strlen(spool_path);
  const size_t ending = strlen(".spool");
  if (length < ending || length >= sizeof path_) return;
  memcpy(path_, spool_path, length - ending);
  memcpy(path_ + length - ending, ".live", sizeof ".live");
  fd_ = above_standard_streams(::open(path_, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  struct stat status;
  if (fd_ < 0 || !status_of(fd_, &status)) return close();
  fchmod(fd_, 0600);  // it is opened again and again: the umask must not forbid that
  inode_ = status.st_ino;
  device_ = status.st_dev;
  next_offset_ = kPageBytes;
  next_index_ = 0;
  on_ = true;
  close();
}

bool LiveFile::open() {
  if (!on_) return false;
  fd_ = above_standard_streams(::open(path_, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat status;
  if (fd_ >= 0 && status_of(fd_, &status) && status.st_ino == inode_ && status.st_dev == device_) return true;
  close();
  end();
  return false;
}

void LiveFile::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

bool LiveFile::write(uint64_t offset, const void* bytes, uint64_t count) {
  rlimit limit;  // growing past it would raise SIGXFSZ and kill the job
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && offset + count > limit.rlim_cur) end();
  for (uint64_t done = 0; on_ && done < count;) {
    const ssize_t written =
        pwrite(fd_, static_cast<const char*>(bytes) + done, count - done, static_cast<off_t>(offset + done));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      end();
    } else {
      done += static_cast<uint64_t>(written);
    }
  }
  return on_;
}

uint64_t LiveFile::add_chunk(ChunkHeader* header) {
  const uint64_t offset = next_offset_;
  const char zero = 0;
  header->magic = kChunkMagic;
  header->index = next_index_++;
  header->check = chunk_check(*header);
  next_offset_ += header->bytes;
  return write(next_offset_ - 1, &zero, 1) && write(offset, header, sizeof *header) ? offset : 0;
}

}  // namespace ddl
