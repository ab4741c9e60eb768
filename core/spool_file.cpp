#include "core/spool_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/lost_pages.h"

namespace ddl {

namespace {

/// fstat, as a system call: glibc before 2.33 has no symbol of that name.
bool status_of(int fd, struct stat* status) { return syscall(SYS_fstat, fd, status) == 0; }

/// Restores errno when it goes out of scope: recording must not be visible to the program.
struct KeepErrno {
  int saved = errno;
  ~KeepErrno() { errno = saved; }
};

constexpr uint64_t kWriteBytes = 1 << 20;

/// Reserves [offset, offset + bytes) so that a later store cannot hit a full disk (which would be SIGBUS), by writing
/// zeros: write() reports ENOSPC, a mapped store would not. fallocate() comes first where there is one: space that is
/// reserved at once need not be reserved page by page while it is written. Alone it would not do: what it reserves is
/// not in the page cache, so each page of 100 records would cost a fault into the file system (ext4: 3.3 us a page;
/// only written 0.8, both 0.45). Checks RLIMIT_FSIZE first: growing past it would raise SIGXFSZ and kill the job.
bool reserve(int fd, uint64_t offset, uint64_t bytes) {
  rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && offset + bytes > limit.rlim_cur) {
    errno = EFBIG;
    return false;
  }
  // if it cannot, writing will tell
  fallocate(fd, FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  static char zeros[64 * 1024];  // never written: all of it is the kernel's one page of zeros
  iovec pieces[kWriteBytes / sizeof zeros];
  for (iovec& piece : pieces) piece = {zeros, sizeof zeros};
  for (uint64_t done = 0; done < bytes;) {
    const uint64_t wanted = bytes - done < kWriteBytes ? bytes - done : kWriteBytes;
    const int count = static_cast<int>((wanted + sizeof zeros - 1) / sizeof zeros);
    pieces[count - 1].iov_len = wanted - static_cast<uint64_t>(count - 1) * sizeof zeros;
    const ssize_t written = pwritev(fd, pieces, count, static_cast<off_t>(offset + done));
    pieces[count - 1].iov_len = sizeof zeros;
    if (written < 0 && errno == EINTR) continue;
    if (written >= 0 && (written == 0 || written % kPageBytes != 0)) errno = ENOSPC;
    if (written <= 0 || written % kPageBytes != 0) return false;
    done += static_cast<uint64_t>(written);
  }
  return true;
}

void* map(int fd, uint64_t offset, uint64_t bytes) {
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(offset));
  if (address == MAP_FAILED) return nullptr;
  madvise(address, bytes, MADV_DONTFORK);
  madvise(address, bytes, MADV_DONTDUMP);  // a core file of the job shows the job
  guard_pages(address, bytes);
  return address;
}

void read_line(const char* path, char* out, size_t bytes) {
  out[0] = 0;
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  const ssize_t got = read(fd, out, bytes - 1);
  close(fd);
  out[got > 0 ? got : 0] = 0;
  out[strcspn(out, "\n")] = 0;
}

}  // namespace

int above_standard_streams(int fd) {
  if (fd < 0 || fd > 2) return fd;
  const int higher = fcntl(fd, F_DUPFD_CLOEXEC, 3);
  close(fd);
  return higher;
}

uint64_t process_start_time() {
  char text[1024];
  read_line("/proc/self/stat", text, sizeof text);
  const char* field = strrchr(text, ')');  // the name in field 2 may hold anything, also blanks and ')'
  for (int i = 2; field && i < 22; ++i) {
    field = strchr(field + 1, ' ');
  }
  return field ? strtoull(field + 1, nullptr, 10) : 0;
}

bool SpoolFile::make_directory(const char* directory) {
  const bool made = mkdir(directory, 0700) == 0;
  error_ = made || errno == EEXIST ? 0 : errno;
  why_ = "cannot make the run directory";
  if (error_) return false;
  struct stat status;
  const int fd = above_standard_streams(open(directory, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (fd < 0 || !status_of(fd, &status)) {
    error_ = errno == ENOTDIR ? 0 : errno;
    why_ = error_ ? "cannot open the run directory" : "the run directory is a file or a symbolic link";
    if (fd >= 0) close(fd);
    return false;
  }
  if (made && (status.st_mode & 0700) != 0700) chmod(directory, status.st_mode | 0700);  // the umask took them away
  close(fd);
  return true;
}

int SpoolFile::make_file(const char* directory, const char* host, uint64_t start) {
  int fd = -1;
  errno = EEXIST;
  // An exec'ed program has the pid and start time of the one before it: the second to record takes the next suffix.
  for (int attempt = 0; attempt < 100 && fd < 0 && errno == EEXIST; ++attempt) {
    char suffix[8] = {};
    if (attempt > 0) snprintf(suffix, sizeof suffix, ".%d", attempt);
    const int length = snprintf(path_, sizeof path_, "%s/%s.%d.%llu%s.spool", directory, host,
                                static_cast<int>(getpid()), static_cast<unsigned long long>(start), suffix);
    if (length < 0 || static_cast<size_t>(length) >= sizeof path_) {
      errno = ENAMETOOLONG;
      return -1;
    }
    fd = open(path_, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  }
  if (fd >= 0) fchmod(fd, 0600);  // it is opened again and again: the umask must not forbid that
  return above_standard_streams(fd);
}

bool SpoolFile::create(const char* directory, ClockKind clock) {
  const KeepErrno keep;
  if (!make_directory(directory)) return false;
  guard_against_lost_pages();
  char host[sizeof(FileHeader::host)] = {};
  gethostname(host, sizeof host - 1);
  for (char* c = host; *c; ++c) {
    if (*c == '/') *c = '_';
  }
  const uint64_t start = process_start_time();
  const int fd = make_file(directory, host, start);
  struct stat status;
  if (fd < 0 || !status_of(fd, &status)) {
    why_ = "cannot make a spool in the run directory";
    error_ = errno;
    if (fd >= 0) close(fd);
    return false;
  }
  inode_ = status.st_ino;
  device_ = status.st_dev;
  void* page = reserve(fd, 0, kPageBytes) ? map(fd, 0, kPageBytes) : nullptr;
  error_ = errno;
  close(fd);
  if (!page) {
    unlink(path_);
    why_ = "no room for a spool in the run directory";
    return false;
  }
  file_bytes_ = kPageBytes;
  next_index_ = 0;
  FileHeader* h = static_cast<FileHeader*>(page);
  h->format_version = kFormatVersion;
  h->byte_order = kByteOrderMark;
  h->header_bytes = kPageBytes;
  h->record_bytes = sizeof(Record);
  h->clock = static_cast<uint32_t>(clock);
  h->pid = static_cast<uint32_t>(getpid());
  h->process_start = start;
  h->begin = read_clock_pair();
  memcpy(h->host, host, sizeof h->host);
  read_line("/proc/sys/kernel/random/boot_id", h->boot_id, sizeof h->boot_id);
  snprintf(h->library_version, sizeof h->library_version, "%s", DDL_VERSION);
  h->rank = -1;
  h->thread_level = -1;
  h->launch_rank = -1;
  h->latest = h->begin;
  __atomic_thread_fence(__ATOMIC_RELEASE);
  memcpy(h->magic, kSpoolMagic, sizeof h->magic);  // last: a file without it is one that was never finished
  header_ = h;
  keep_header();
  keep_contents(h, &kept_, sizeof kept_);
  return true;
}

void SpoolFile::keep_header() {
  static_assert(sizeof kept_ % sizeof(uint64_t) == 0);
  const char* from = reinterpret_cast<const char*>(header_);
  char* to = reinterpret_cast<char*>(&kept_);
  for (size_t at = 0; at < sizeof kept_; at += sizeof(uint64_t)) {  // counters in it grow meanwhile
    const uint64_t word = __atomic_load_n(reinterpret_cast<const uint64_t*>(from + at), __ATOMIC_RELAXED);
    memcpy(to + at, &word, sizeof word);
  }
}

int SpoolFile::open_again() {
  const int fd = above_standard_streams(open(path_, O_RDWR | O_NOFOLLOW | O_CLOEXEC));
  if (fd < 0) return -1;
  struct stat status;
  if (!status_of(fd, &status) || status.st_ino != inode_ || status.st_dev != device_) {
    close(fd);
    errno = ESTALE;
    return -1;
  }
  return fd;
}

void SpoolFile::begin_live(LiveFile* live) {
  const KeepErrno keep;
  const int fd = open_again();
  if (fd < 0) return;
  live->begin(path_, fd);
  close(fd);
}

ChunkHeader* SpoolFile::add_chunk(ChunkKind kind, uint32_t* given, uint32_t thread) {
  const KeepErrno keep;
  const int fd = open_again();
  error_ = errno;
  if (fd < 0) return nullptr;
  // The page cache keeps in one piece what lies at a multiple of its size: a large chunk of the log gives up what would
  // make the next one begin elsewhere.
  uint32_t bytes = *given;
  const bool log = kind == ChunkKind::kEvents || kind == ChunkKind::kDevice;
  if (log && bytes >= 2 * kMinChunkBytes) bytes -= static_cast<uint32_t>((file_bytes_ + bytes) % kMinChunkBytes);
  void* address = reserve(fd, file_bytes_, bytes) ? map(fd, file_bytes_, bytes) : nullptr;
  error_ = errno;
  close(fd);
  if (!address) return nullptr;
  file_bytes_ += bytes;
  *given = bytes;
  ChunkHeader* chunk = static_cast<ChunkHeader*>(address);
  chunk->kind = static_cast<uint32_t>(kind);
  chunk->bytes = bytes;
  chunk->thread = thread;
  chunk->index = next_index_++;
  chunk->begin_ticks = ticks();
  chunk->begin_monotonic_ns = clock_ns(CLOCK_MONOTONIC);
  ChunkHeader checked = *chunk;
  checked.magic = kChunkMagic;
  chunk->check = chunk_check(checked);
  __atomic_store_n(&chunk->magic, kChunkMagic, __ATOMIC_RELEASE);
  return chunk;
}

void SpoolFile::unmap(ChunkHeader* chunk) {
  const KeepErrno keep;
  const size_t guarded = unguard_pages(chunk);
  munmap(chunk, guarded ? guarded : chunk->bytes);
}

}  // namespace ddl
